// ZeRO-3: deepspeed/runtime/zero/stage3.py (DeepSpeedZeroOptimizer_Stage3) on one rank.
// Derived in docs/memory-model.md#zero3.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "step/coordinator.h"
#include "step/engine.h"
#include "step/pinned_host.h"

namespace zplan {

class Zero3 {
 public:
  Zero3(const Run& run, const Script& script, Recorder& recorder);

  void load();
  void init();
  void before_forward(const Accumulation& at);
  void start_forward() { coordinator_.reset_step(); }
  void before_backward(const Accumulation&) {}
  void gradient(std::int32_t parameter, BlockId block);
  void enter_forward(std::int32_t module, bool recompute);
  void leave_forward(std::int32_t module, bool recompute);
  void drop_weight(std::int32_t module) { coordinator_.drop_held(module); }
  void drop_graph();
  void enter_backward(std::int32_t module) { coordinator_.fetch(module, false, false); }
  void leave_backward(std::int32_t module) { coordinator_.release(module, false, Coordinator::Keeps::Nothing); }
  void after_backward(const Accumulation& at);
  void pre_step(const Accumulation& at);
  void step(const Accumulation& at);
  void post_step(const Accumulation& at);
  void step_returns(const Accumulation& at);

 private:
  struct SubGroup {
    std::vector<std::int32_t> parameters;  // trainable ones, in order
    std::int64_t elements = 0;             // of this rank
    bool states = false;                   // Adam states exist
    bool on_cpu = false;                   // its master, gradient and states are on the host
  };
  void rotary_buffers();
  void quantization_state(std::int64_t numel);
  struct InBucket { std::int32_t parameter; BlockId own; };  // own: gradient larger than the bucket, else -1
  // One a communication dtype.
  struct Bucket {
    std::vector<InBucket> gradients;
    std::int64_t elements = 0, width = 2;
  };
  Bucket& bucket_of(std::int32_t parameter);
  void reduce(Bucket& bucket);
  void whole_adapters(std::int64_t width);
  bool made_fp32() const;                              // PEFT made the adapters of a 16-bit model fp32
  std::int64_t lp() const;                             // bytes of an element of the model's dtype
  void partition_gradient(std::int32_t parameter);
  BlockId buffered_norm(std::int32_t parameter, std::int64_t elements);
  void free_orphan_head();
  void drop_partition(std::int64_t bytes);
  void overflow_check();
  void norms();
  void offloaded_norms();
  void combine_norms(const char* groups);
  void step_sub_group(SubGroup& group, std::int64_t index);
  bool offloaded() const { return run_.ds.zero.offload_optimizer.device != OffloadDevice::None; }
  bool params_offloaded() const { return run_.ds.zero.offload_param.device != OffloadDevice::None; }
  void host_buffer(std::int64_t bytes, bool pinned);   // stays
  // Bytes an element of master, step gradient and Adam states.
  std::int64_t master_width() const { return run_.ds.bf16_master_weights_and_grads ? 2 : 4; }
  std::int64_t partition(std::int32_t p) const { return coordinator_.partition_numel(p); }
  const Parameter& parameter(std::int32_t p) const { return script_.parameters[static_cast<std::size_t>(p)]; }

  const Run& run_;
  const Script& script_;
  Recorder& recorder_;
  std::vector<std::int64_t> widths_;
  Coordinator coordinator_;
  StreamId reduce_stream_;
  // Grouped matmul saves the expert weights themselves, torch's own linear a view of its weight; neither goes through
  // zero/linear.py: what is released in a forward that keeps its graph stays alive until its backward.
  std::vector<bool> keeps_views_;          // by module
  std::vector<SubGroup> groups_;
  std::vector<BlockId> partitions_;        // by parameter, between zero.Init and defragmentation; -1 = in the flat buffer
  BlockId orphan_head_ = -1;               // partition of a tied lm_head, built before the tie
  bool orphaned_ = false;
  std::vector<Bucket> buckets_;            // of the autocast dtype first
  std::vector<BlockId> offloaded_norms_;   // norm_for_param_grads
  std::deque<double> reductions_;          // when queued reductions are done
  std::int64_t micro_step_ = 0;
  bool boundary_ = true;
  std::uint16_t build_label_, partition_label_, flat_label_, master_label_, clone_label_, convert_label_,
      zero_grad_label_, bucket_label_,
      grad_label_, cat_label_, cast_label_, norm_label_, flat_grad_label_, fp32_grad_label_, adam_label_, scalar_label_, gather_label_,
      accumulator_label_, overflow_label_, foreach_label_;
  Scalars scalars_;
  PinnedHost pinned_;
};

}  // namespace zplan
