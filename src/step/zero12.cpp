#include "step/zero12.h"

#include <algorithm>

#include "step/optimizer.h"
#include "units/units.h"

namespace zplan {

Zero12::Zero12(const Run& run, const Script& script, Recorder& recorder)
    : run_(run), script_(script), recorder_(recorder), sw_(run.versions.switches), module_(run, script, recorder), storages_(recorder),
      pinned_(recorder), width_(module_.width(0)),
      master_width_(run.ds.bf16_master_weights_and_grads ? 2 : 4),
      stream_(run.ds.zero.overlap_comm ? kReduce : kCompute),
      places_(script.parameters.size()), gradients_(script.parameters.size(), Storages::kNone),
      flat_label_(recorder.label("flat buffer of parameter group", Component::Parameters)),
      master_label_(recorder.label("fp32 master of parameter group", Component::Optimizer)),
      clone_label_(recorder.label("clone of the partition", Component::StepTransients)),
      zero_label_(recorder.label("zeros", Component::StepTransients)),
      bucket_label_(recorder.label("reduce bucket", Component::CommBuckets)),
      partition_label_(recorder.label("gradients of the partition", Component::Gradients)),
      cat_label_(recorder.label("gradients flattened for the all-reduce", Component::CommBuckets)),
      comm_label_(recorder.label("gradients in the communication dtype", Component::CommBuckets)),
      norm_label_(recorder.label("gradient slice in double, for the norm", Component::StepTransients)),
      flat_grad_label_(recorder.label("flattened gradient of parameter group", Component::StepTransients)),
      fp32_grad_label_(recorder.label("fp32 gradient of parameter group", Component::StepTransients)),
      state_label_(recorder.label("optimizer state of parameter group", Component::Optimizer)),
      transient_label_(recorder.label("optimizer temporary of parameter group", Component::StepTransients)),
      scalar_label_(recorder.label("scalar of the engine", Component::StepTransients)),
      check_label_(recorder.label("overflow check of a gradient", Component::StepTransients)),
      compact_label_(recorder.label("fp32 gradient partition", Component::Gradients)),
      staging_label_(recorder.label("gradient staging buffer", Component::CommBuckets)),
      checks_(recorder, scalar_label_, check_label_, run.gpu.sm_count, sw_), scalars_(recorder, scalar_label_) {
  for (auto& flat : flat_groups(run, script.parameters)) {
    Group g;
    g.flat = std::move(flat);
    const auto& slices = g.flat.slices;
    for (std::size_t s = 0; s < slices.size(); ++s) {
      auto& p = place(slices[s].parameter);
      if (p.group < 0) p = {static_cast<std::int32_t>(groups_.size()), s, s, false};
      p.last = s + 1;
      p.owned = p.owned || slices[s].rank == run.rank;
    }
    groups_.push_back(std::move(g));
  }
}

void Zero12::init() {
  module_.move();
  // deepspeed/ops/adam/fused_adam.py: _dummy_overflow_buf.
  if (run_.workload.optimizer == OptimizerKind::DeepSpeedAdam && !offloaded()) scalars_.play("dummy_overflow_buf=4");
  for (std::size_t g = 0; g < groups_.size(); ++g) flatten_group(groups_[g], static_cast<std::int64_t>(g));
  if (offloaded()) init_offload_gradients();
  else initialize_optimizer_states();
}

// S12:__init__, one parameter group.
void Zero12::flatten_group(Group& group, std::int64_t index) {
  const auto& f = group.flat;
  if (sw_.flatten_on_device) recorder_.empty_cache();
  const auto flat_bytes = width_ * f.flat;
  const auto free_bytes = run_.gpu.memory_total.count - run_.gpu.context.value_or(MiB(620)).count - module_.bytes();
  const auto padding = width_ * (f.flat - f.numel);
  if (sw_.flatten_on_device && free_bytes >= flat_bytes) {
    const auto pad = padding > 0 ? recorder_.allocate(padding, zero_label_) : -1;
    recorder_.allocate(flat_bytes, flat_label_, index);
    if (pad >= 0) recorder_.free(pad);
    for (const auto p : f.flat_order) module_.drop(p);
  } else {
    // Through the host: parameters and their flat copy; an empty tensor of one element stands for each on the GPU.
    std::vector<BlockId> stands(f.parameters.size());
    for (std::size_t i = 0; i < f.parameters.size(); ++i) {
      recorder_.host(width_ * numel(f.parameters[i]));
      stands[i] = recorder_.allocate(4, scalar_label_);
      module_.drop(f.parameters[i]);
    }
    recorder_.empty_cache();
    recorder_.host(flat_bytes);
    recorder_.host(-width_ * f.numel);
    recorder_.allocate(flat_bytes, flat_label_, index);
    recorder_.host(-flat_bytes);
    for (const auto s : stands) recorder_.free(s);
  }
  if (offloaded()) { init_offload(group); return; }
  const auto clone = recorder_.allocate(width_ * f.partition, clone_label_, index);
  if (width_ == master_width_) return;  // the clone is the master
  recorder_.allocate(master_width_ * f.partition, master_label_, index);
  recorder_.free(clone);
}

// Zero gradients of every group, dropped again; the states are made in the first step.
void Zero12::initialize_optimizer_states() {
  std::vector<BlockId> zeros;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    zeros.push_back(recorder_.allocate(master_width_ * groups_[g].flat.partition, zero_label_, static_cast<std::int64_t>(g)));
  }
  for (const auto z : zeros) recorder_.free(z);
}

void Zero12::before_forward(const Accumulation& at) { boundary_ = at.boundary(); }

void Zero12::before_backward(const Accumulation& at) {
  boundary_ = at.boundary();
  if (!sw_.buckets_at_first_hook) setup_buckets();  // S12:backward_prologue
}

void Zero12::after_backward(const Accumulation&) {
  if (stage2() || boundary_) {
    // ENG:allreduce_gradients -> S12:reduce_gradients; without overlap stage 1 reduces here, in the order of the groups.
    if (!stage2() && !overlap()) {
      for (const auto& g : groups_) {
        for (const auto p : g.flat.parameters) {
          if (grad(p) != Storages::kNone) add_to_bucket(p);
        }
      }
    }
    epilogue();
  }
}

// S12:step.
void Zero12::step(const Accumulation& at) {
  if (!at.boundary()) return;
  micro_step_ = 0;
  if (offloaded()) { step_offload(); return; }
  const bool checked = run_.ds.precision == Precision::Fp16 ||
                       (run_.ds.precision == Precision::Bf16 && sw_.bf16_overflow_check && run_.ds.bf16_check_grad_overflow);
  const auto skipped = checked ? run_.workload.skipped_steps : 0;
  if (checked) {
    scalars_.play("invalid=4");
    const auto width = compact() ? 4 : width_;
    for (const auto& g : groups_) {
      for (const auto& s : g.flat.owned) recorder_.free(checks_.has_inf_or_nan(s.numel, width));
      if (g.averaged_padding > 0) recorder_.free(checks_.has_inf_or_nan(g.averaged_padding, width));
    }
    scalars_.play("bool=1 -invalid byte=1 -bool -byte");
    if (at.step < skipped) { skip_step(); return; }
  }
  std::vector<BlockId> norms;
  for (const auto& g : groups_) {
    std::vector<BlockId> slices;
    for (const auto& s : g.flat.owned) slices.push_back(checks_.double_norm(s.numel, width_, norm_label_, s.parameter));
    norms.push_back(checks_.group_norm(std::move(slices)));
  }
  const auto norm = checks_.combined_norm(norms);
  if (sw_.norm_before_scale_update) checks_.is_invalid_grad_norm();
  const bool stepped = at.step > skipped;
  scalars_.play(stepped ? "global_grad_norm_now=4" : "global_grad_norm=4");
  for (std::size_t g = 0; g < groups_.size(); ++g) step_group(groups_[g], static_cast<std::int64_t>(g));
  recorder_.free(norm);
  if (stepped) {
    scalars_.play("-global_grad_norm");
    scalars_.rename("global_grad_norm_now", "global_grad_norm");
  }
}

// Before 0.17.1 (#6976) the engine makes a new averaged_gradients after an overflow, but the parameters' fragments hold
// the first (gradient_dict).
void Zero12::skip_step() {
  const bool kept = sw_.skipped_step_keeps_gradients && !std::exchange(skipped_, true);
  for (auto& g : groups_) {
    if (kept) g.averaged.clear();
    storages_.release_list(g.averaged);
    storages_.release(g.compact);
  }
}

void Zero12::step_group(Group& group, std::int64_t index) {
  const auto part = group.flat.partition;
  Ref gradient = Storages::kNone;
  if (group.compact != Storages::kNone) {
    gradient = storages_.share(group.compact);  // _get_preflattened_grad_partition
  } else {
    // flatten is a view for one tensor.
    if (group.averaged.size() > 1) gradient = storages_.own(recorder_.allocate(width_ * part, flat_grad_label_, index));
    else gradient = storages_.share(group.averaged.front());
    if (width_ != master_width_) {
      const auto cast = storages_.own(recorder_.allocate(master_width_ * part, fp32_grad_label_, index));
      storages_.release(gradient);
      gradient = cast;
    }
  }
  storages_.release_list(group.averaged);
  storages_.release(group.compact);
  if (run_.ds.gradient_clipping > 0) checks_.clip_factor();
  optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, part, index, !std::exchange(group.states, true),
                 run_.ds.bf16_optimizer_states ? 2 : 4);
  storages_.release(gradient);
}

}  // namespace zplan
