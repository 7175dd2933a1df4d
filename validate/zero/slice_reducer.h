// Gradients of stage 3 (S3:__add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads,
// partition_grads): whole gradients collect in one bucket, are reduce-scattered in order of their
// ids, and this rank's slices are added to its gradient buffer, on the device or in host memory.
#pragma once

#include "device.h"
#include "zero/engine.h"
#include "zero/partitioned.h"

namespace zplan::trainer {

// Where a slice goes.
struct SliceTarget {
  at::Tensor accumulated;  // in the model's dtype, device or host
  at::Tensor step;         // offload only: its place in the pinned fp32 gradient of the sub-group
};

class SliceReducer {
 public:
  SliceReducer(const EngineSetup& setup,
               const std::vector<std::unique_ptr<Partitioned>>& parameters,
               std::vector<SliceTarget> targets);

  void add(std::size_t parameter, bool first_micro_step, bool boundary);
  void flush();
  void finish();  // end of a backward: the rest, and the host waits for it
  // Offload: sum of squares of the slices of this step, on the device; taken once.
  at::Tensor take_squared_norm();

 private:
  std::vector<at::Tensor> scatter();
  void deliver(std::size_t parameter, at::Tensor slice);

  const EngineSetup& setup_;
  const std::vector<std::unique_ptr<Partitioned>>& parameters_;
  std::vector<SliceTarget> targets_;
  std::int64_t limit_;
  Lane lane_;
  Throttle ongoing_{2};  // max_param_reduce_events
  at::Tensor bucket_;
  std::int64_t filled_ = 0;
  std::vector<std::size_t> pending_;
  bool first_micro_step_ = true, boundary_ = true;
  std::vector<at::Tensor> norms_;
};

}  // namespace zplan::trainer
