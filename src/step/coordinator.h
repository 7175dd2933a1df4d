// ZeRO-3's parameter coordinator: which parameters are gathered when, and when they are released.
// deepspeed/runtime/zero/partitioned_param_coordinator.py (PartitionedParameterCoordinator) and
// partition_parameters.py (all_gather_coalesced and its handles). Derived in docs/memory-model.md#zero3-gather.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "spec/run.h"
#include "step/modules.h"
#include "step/recorder.h"

namespace zplan {

class Coordinator {
 public:
  // partition_numel and width by parameter; `persistent` ones are never released by modules.
  Coordinator(const Run& run, const std::vector<Parameter>& parameters, const Modules& modules, Recorder& recorder,
              std::vector<std::int64_t> widths);

  void reset_step();                                     // start of the root module's forward
  void fetch(std::int32_t module, bool forward, bool recompute);
  // What the graph that a forward records keeps of the module's gathered weights: nothing of them, those of which its nodes
  // save views (grouped_mm's stacks, torch's own linears), or all that train.
  enum class Keeps { Nothing, Views, Trained };
  void release(std::int32_t module, bool forward, Keeps keeps);
  // Backward of a recomputed module no longer needs the weight it saved.
  void drop_held(std::int32_t module);
  void release_backward_leftovers();                     // end of backward
  void release_all();                                    // before the optimizer step
  void gather_persistent(bool on_compute_stream);        // after the optimizer step
  // The graph of a micro-step is freed, and with it the 4-bit weights its nodes hold.
  void drop_graph();
  void drop_secondary();                                 // hpZ: after the optimizer step
  // A parameter read outside its module, such as lm_head.weight by Liger: gathered at once if need be, and from
  // then on fetched and released with `module` (parameter_offload.py, ZeROOrderedDict.__getitem__).
  void use_external(std::int32_t parameter, std::int32_t module);
  bool persistent(std::int32_t parameter) const { return state_[static_cast<std::size_t>(parameter)].persistent; }
  std::int64_t partition_numel(std::int32_t parameter) const { return state_[static_cast<std::size_t>(parameter)].partition; }
  std::int64_t numel(std::int32_t parameter) const { return state_[static_cast<std::size_t>(parameter)].numel; }  // as stored
  // hpZ: a secondary copy is made when a gathered parameter is partitioned and has none.
  void make_secondary(std::int32_t parameter);
  std::int64_t gathers() const { return gathers_; }

 private:
  enum class Status : std::uint8_t { NotAvailable, Inflight, Available };
  enum class TraceMode { Invalid, Record, Complete };
  struct State {
    std::int64_t numel = 0, partition = 0, width = 2;
    std::int64_t sent_width = 2;               // bytes an element of a gather: less than width under torch_autocast
    Status status = Status::NotAvailable;
    bool persistent = false, trainable = true, offloaded = false;
    bool routes = false;                       // a router: its linear is DeepSpeed's, which saves no view
    bool quantized = false, in_graph = false;  // a node of the forward's graph holds the gathered block
    BlockId block = -1, secondary = -1;
    BlockId held = -1;                         // released, but saved by a recomputed graph
    std::int32_t handle = -1;                  // in flight: index in handles_
    std::vector<std::int32_t> active;          // ds_active_sub_modules
    std::int64_t most_recent_step = kNever;    // most_recent_step_id_param_fetched_for
  };
  struct Flat {
    BlockId block;
    std::vector<std::int32_t> parameters;
  };
  // What one call of all_gather_coalesced returns: all its parameters share it.
  struct Handle {
    std::vector<Flat> flats;
    std::vector<std::pair<std::int32_t, BlockId>> narrow;  // parameters gathered in the autocast dtype, until the wait
    std::vector<BlockId> sent;                 // partitions brought from the host, until the first wait
    bool complete = false;
    std::int64_t waiting = 0;                  // parameters not yet waited for
  };
  struct InTrace {
    std::int32_t parameter;
    std::int64_t step_id;
  };
  static constexpr std::int64_t kNever = -10'000'000'000;

  // A module's own parameters and those it was seen to read.
  const std::vector<std::int32_t>& own(std::int32_t module) const { return own_[static_cast<std::size_t>(module)]; }
  std::vector<std::vector<std::int32_t>> own_;
  std::vector<std::int32_t> ds_id_;            // by parameter: the order of a gather and of a trace's step
  void sort_by_id(std::vector<std::int32_t>& parameters) const;
  void all_gather(const std::vector<std::int32_t>& parameters);
  void gather_group(const std::vector<std::int32_t>& parameters, bool secondary);
  void wait(std::int32_t parameter);
  void clean_inflight();
  void prefetch(const std::vector<std::int32_t>& fetched);
  void release_parameter(std::int32_t parameter, bool saved = false);
  const std::vector<std::int32_t>& to_release(std::int32_t module, std::int64_t step_id);
  bool used_again(std::int32_t module, std::int32_t parameter, std::int64_t step_id) const;
  void index_trace();
  void release_all_of(std::int32_t module, const std::vector<std::int32_t>& parameters,
                      const std::vector<std::int32_t>& releasable, Keeps keeps);

  const Run& run_;
  const Modules& modules_;
  Recorder& recorder_;
  std::int64_t world_;
  StreamId stream_;
  std::vector<State> state_;
  std::vector<Handle> handles_;
  struct Held {
    std::int32_t parameter;
    BlockId block;
  };
  std::vector<Held> graph_;                    // released, but held by the forward's graph
  TraceMode mode_ = TraceMode::Invalid;
  std::vector<std::int32_t> module_order_;
  std::vector<InTrace> parameter_order_;
  std::size_t queue_ = 0;                      // next in parameter_order_ (param_queue)
  std::int64_t step_id_ = 0, available_ = 0, gathers_ = 0;
  std::vector<std::int32_t> active_backward_;  // by entry, oldest first
  std::map<std::int32_t, std::vector<std::int32_t>> recompute_parameters_;  // ds_recompute_parameters by module
  struct Release {
    std::int32_t module;
    std::vector<std::int32_t> parameters;
  };
  std::vector<std::vector<Release>> release_cache_;       // by step of the trace
  std::vector<std::vector<std::int64_t>> uses_;           // steps of the trace, by parameter
  std::vector<std::int64_t> traversed_;                   // elements before each step
  std::uint16_t single_label_, flat_label_, copy_label_, partition_label_, secondary_label_, trace_label_,
      persistent_label_;
};

}  // namespace zplan
