// ZeRO-1 and 2: deepspeed/runtime/zero/stage_1_and_2.py (DeepSpeedZeroOptimizer) on one rank.
// zero12.cpp: loading, initialize, step. zero12_reduce.cpp: from gradient hooks to the epilogue.
// zero12_offload.cpp: the optimizer on the host. Derived in docs/stages-0-2.md#zero12.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "step/device_module.h"
#include "step/engine.h"
#include "step/gradient_checks.h"
#include "step/parameter_groups.h"
#include "step/pinned_host.h"
#include "step/storages.h"

namespace zplan {

class Zero12 : public NoModuleHooks {
 public:
  Zero12(const Run& run, const Script& script, Recorder& recorder);

  void load() { module_.load(); }
  void init();
  void before_forward(const Accumulation& at);
  void before_backward(const Accumulation& at);
  void gradient(std::int32_t parameter, BlockId block);
  void after_backward(const Accumulation& at);
  void step(const Accumulation& at);

 private:
  using Ref = Storages::Ref;

  // Gradients on their way to one reduction; one bucket a communication dtype.
  struct Bucket {
    std::int64_t communication_width = 2;
    std::vector<Ref> buffers;               // contiguous_gradients: one, or two with overlap_comm
    std::size_t index = 0;
    std::vector<std::int32_t> parameters;
    std::vector<Ref> gradients;             // bucket.grads, where not views of the buffer
    std::int64_t elements = 0;
    bool oversized = false;                 // its one gradient is larger than the bucket and stays where it is
  };
  struct Group {
    FlatGroup flat;
    bool states = false;                    // the optimizer's exist
    std::vector<Ref> accumulated;           // all_grad_tensors between micro-steps
    std::vector<Ref> averaged;              // averaged_gradients: owned slices, then padding
    std::int64_t averaged_padding = 0;
    Ref compact = Storages::kNone;          // fp32 gradient partition (fp32_compact_grad_partition)
  };
  struct Place {                            // of a parameter
    std::int32_t group = -1;
    std::size_t first = 0, last = 0;        // its slices in the group
    bool owned = false;
  };

  void flatten_group(Group& group, std::int64_t index);
  void initialize_optimizer_states();
  // zero12_reduce.cpp
  void setup_buckets();
  void add_to_bucket(std::int32_t parameter);
  void flush(Bucket& bucket);
  void reduce(Bucket& bucket);
  void hand_out(Bucket& bucket);
  void average(Bucket& bucket);
  void allreduce(const std::vector<Slice>& slices, std::int64_t communication_width, const std::vector<BlockId>& storages);
  void reduce_uncontiguous(Bucket& bucket);
  void copy_to_partition(std::int32_t parameter);
  void epilogue();
  void release_buckets();
  Ref compact_partition(Group& group);
  bool compact() const;
  // zero12_offload.cpp
  void init_offload(Group& group);
  void init_offload_gradients();
  void offload_gradient(std::int32_t parameter);
  void step_offload();

  void step_group(Group& group, std::int64_t index);
  void skip_step();
  bool offloaded() const { return run_.ds.zero.offload_optimizer.device != OffloadDevice::None; }
  bool stage2() const { return run_.ds.zero.stage == 2; }
  bool contiguous() const { return run_.ds.zero.contiguous_gradients || offloaded(); }
  bool overlap() const { return run_.ds.zero.overlap_comm; }
  bool pinned() const { return run_.ds.zero.offload_optimizer.pin_memory; }
  std::int64_t numel(std::int32_t p) const { return script_.parameters[static_cast<std::size_t>(p)].numel; }
  Place& place(std::int32_t p) { return places_[static_cast<std::size_t>(p)]; }
  Ref& grad(std::int32_t p) { return gradients_[static_cast<std::size_t>(p)]; }
  Bucket& bucket_of(std::int32_t parameter);
  void record(BlockId block) { if (overlap() && sw_.overlap_record_stream) recorder_.record_stream(block, kReduce); }

  const Run& run_;
  const Script& script_;
  Recorder& recorder_;
  const DeepSpeedSwitches& sw_;
  DeviceModule module_;
  Storages storages_;
  PinnedHost pinned_;
  std::int64_t width_;                       // of the parameters and their gradients
  std::int64_t master_width_;
  StreamId stream_;                          // reductions
  std::vector<Group> groups_;
  std::vector<Place> places_;
  std::vector<Ref> gradients_;               // param.grad by parameter
  std::vector<Bucket> buckets_;
  std::vector<std::int32_t> previous_reduced_;
  Ref partition_gradients_ = Storages::kNone;  // grads_in_partition
  std::map<std::int32_t, BlockId> offload_norms_;
  std::map<std::int32_t, bool> host_accumulators_;
  bool ready_ = false, boundary_ = true;
  std::int64_t micro_step_ = 0;
  bool skipped_ = false;                     // a step was
  std::uint16_t flat_label_, master_label_, clone_label_, zero_label_, bucket_label_, partition_label_, cat_label_, comm_label_,
      norm_label_, flat_grad_label_, fp32_grad_label_, state_label_, transient_label_, scalar_label_, check_label_, compact_label_,
      staging_label_;
  GradientChecks checks_;
  Scalars scalars_;
};

}  // namespace zplan
