// When stage 3 gathers and releases parameters (runtime/zero/partitioned_param_coordinator.py). The
// first forward and backward record the order of modules and release everything right after use;
// from the second on parameters are prefetched in that order and kept when they are used again
// soon.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "spec/ds_config.h"
#include "zero/gather.h"

namespace zplan::trainer {

class Coordinator final : public ModuleHooks {
 public:
  Coordinator(const ZeroConfig& zero, Communicator& communicator, at::Device device,
              const std::unordered_map<const Parameter*, Partitioned*>& partitioned);

  void reset_step();  // before every forward of the model
  void
  release_leftovers();  // end of backward: what no module's backward has released (the embedding)
  void release_all();   // before the optimizer step, persistent parameters included

  void before_forward(const Module& module) override { fetch(module); }
  void after_forward(const Module& module) override { release(module); }
  void before_backward(const Module& module) override { fetch(module); }
  void after_backward(const Module& module) override { release(module); }

 private:
  enum class Trace { Record, Complete, Invalid };
  struct Use {
    Partitioned* parameter;
    std::int64_t step;  // of the module that uses it
  };
  using Set = std::vector<Partitioned*>;  // in the order of ids

  Set parameters_of(const Module& module) const;
  void fetch(const Module& module);
  void release(const Module& module);
  void follow_trace(const Module& module);
  void gather(const Set& parameters);
  void take_from_queue(const Set& parameters);
  void prefetch();
  void release_parameter(Partitioned& p);
  const std::vector<Partitioned*>& to_release(const Module& module);
  void settle_in_flight();
  void invalidate();

  const ZeroConfig zero_;
  Communicator& communicator_;
  at::Device device_;
  std::unordered_map<const Parameter*, Partitioned*> partitioned_;
  Lane gather_lane_;
  Throttle ongoing_{2};  // __max_ongoing_fetch_events

  Trace trace_ = Trace::Invalid;  // the first reset starts the recording
  std::vector<const Module*> order_;
  std::vector<Use> uses_;
  std::deque<Use> queue_;
  std::int64_t step_ = 0;
  std::int64_t available_ =
      0;  // elements gathered or in flight; what was gathered after a step is not counted
  std::unordered_map<Partitioned*, std::int64_t> fetched_for_;  // latest step a fetch has covered
  std::unordered_map<Partitioned*, std::shared_ptr<Gather>> in_flight_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Partitioned*>>
      decided_;  // (module, step)
};

}  // namespace zplan::trainer
