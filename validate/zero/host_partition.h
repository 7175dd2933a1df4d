// Stages 1 and 2 with offload_optimizer: this rank's master weights, gradients and Adam states in
// host memory (S12: async_accumulate_grad_in_cpu_via_gpu,
// async_inplace_copy_grad_to_fp32_buffer_from_gpu, step).
#pragma once

#include <map>

#include "device.h"
#include "zero/engine.h"
#include "zero/flat_layout.h"

namespace zplan::trainer {

class HostPartition {
 public:
  // `weights`: this rank's part of the flat buffer, on the device.
  HostPartition(const EngineSetup& setup, const ParameterList& parameters, const FlatLayout& layout,
                const at::Tensor& weights);

  // An averaged gradient of this micro-step, on the current lane; it leaves the GPU here.
  void take(std::size_t parameter, bool first_micro_step, bool boundary);
  // Sum of squares of the gradient slices taken at the boundary, and the largest magnitude, on the
  // device.
  at::Tensor squared_norm() const;
  at::Tensor worst() const;
  // Adam in host memory, then the weights back to `weights`.
  void step(const AdamSettings& settings, double factor, at::Tensor weights);
  void drop();  // an overflow: what was taken is not used

 private:
  const EngineSetup& setup_;
  const ParameterList& parameters_;
  const FlatLayout& layout_;
  at::Tensor master_, gradient_, staging_;  // host: 4, 4 and model-width bytes an element
  at::Tensor
      staging_unused_;  // temp_grad_buffer_for_cpu_offload: pinned, never written by DeepSpeed
  at::Tensor scratch_;  // device: the largest parameter (temp_grad_buffer_for_gpu_offload)
  std::map<std::size_t, at::Tensor>
      accumulated_;  // host, accumulation only: whole gradients of owned parameters
  std::vector<at::Tensor> norms_, worst_;
  AdamState state_;
};

}  // namespace zplan::trainer
