#include "step/bf16_optimizer.h"

#include <utility>

#include "step/optimizer.h"

namespace zplan {

Bf16Optimizer::Bf16Optimizer(const Run& run, const Script& script, Recorder& recorder)
    : run_(run), script_(script), recorder_(recorder), module_(run, script, recorder), groups_(flat_groups(run, script.parameters)),
      gradients_(script.parameters.size(), -1),
      flat_label_(recorder.label("flat buffer of parameter group", Component::Parameters)),
      master_label_(recorder.label("fp32 master of parameter group", Component::Optimizer)),
      clone_label_(recorder.label("clone of the partition", Component::StepTransients)),
      zero_label_(recorder.label("zeros", Component::StepTransients)),
      gradient_label_(recorder.label("fp32 gradients of parameter group", Component::Gradients)),
      cast_label_(recorder.label("gradient in fp32", Component::StepTransients)),
      reduce_label_(recorder.label("gradients in the communication dtype", Component::CommBuckets)),
      state_label_(recorder.label("optimizer state of parameter group", Component::Optimizer)),
      transient_label_(recorder.label("optimizer temporary of parameter group", Component::StepTransients)),
      scalar_label_(recorder.label("scalar of the engine", Component::StepTransients)),
      check_label_(recorder.label("overflow check of a gradient", Component::StepTransients)),
      checks_(recorder, scalar_label_, check_label_, run.gpu.sm_count, run.versions.switches), scalars_(recorder, scalar_label_) {}

// BF16O:_setup_for_real_optimizer.
void Bf16Optimizer::init() {
  module_.move();
  if (run_.workload.optimizer == OptimizerKind::DeepSpeedAdam) recorder_.allocate(4, scalar_label_);  // _dummy_overflow_buf
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto& f = groups_[g];
    const auto index = static_cast<std::int64_t>(g);
    const auto pad = f.flat > f.numel ? recorder_.allocate(2 * (f.flat - f.numel), zero_label_) : -1;
    recorder_.allocate(2 * f.flat, flat_label_, index);
    if (pad >= 0) recorder_.free(pad);
    for (const auto p : f.parameters) module_.drop(p);
    const auto clone = recorder_.allocate(2 * f.partition, clone_label_, index);
    recorder_.allocate(4 * f.partition, master_label_, index);
    recorder_.free(clone);
    recorder_.allocate(4 * f.flat, gradient_label_, index);
  }
}

// BF16O:_update_hp_grad: the low-precision gradient is converted and added to the fp32 buffer.
void Bf16Optimizer::accumulate(std::int32_t p) { recorder_.free(recorder_.allocate(4 * numel(p), cast_label_, p)); }

void Bf16Optimizer::gradient(std::int32_t p, BlockId block) {
  if (!script_.parameters[static_cast<std::size_t>(p)].trainable) { recorder_.free(block); return; }
  auto& grad = gradients_[static_cast<std::size_t>(p)];
  if (grad >= 0) recorder_.free(block);  // added in place
  else grad = block;
  if (!run_.ds.bf16_immediate_grad_update) return;
  accumulate(p);
  if (run_.versions.switches.bf16_immediate_frees_grad) recorder_.free(std::exchange(grad, -1));
}

void Bf16Optimizer::after_backward(const Accumulation& at) {
  std::vector<std::int64_t> flats;
  for (const auto& g : groups_) {
    for (const auto p : g.parameters) {
      if (!run_.ds.bf16_immediate_grad_update && gradients_[static_cast<std::size_t>(p)] >= 0) accumulate(p);
    }
    flats.push_back(g.flat);
  }
  if (!at.boundary()) return;
  const auto communication = width(run_.ds.communication_data_type.value_or(Precision::Bf16)).count;
  buffered_allreduce(recorder_, flats, 4, communication, reduce_label_);
}

// RU:get_global_norm_of_tensors over every fp32 gradient.
BlockId Bf16Optimizer::global_norm() {
  std::vector<std::int64_t> sizes;
  for (const auto& g : groups_) {
    for (const auto p : g.parameters) sizes.push_back(numel(p));
  }
  if (!run_.versions.switches.norm_before_scale_update) {
    // One kept scalar a tensor; the norms are added up in the first.
    if (!std::exchange(norm_buffer_, true)) {
      for (std::size_t i = 0; i < sizes.size(); ++i) checks_.scalar(4);
    }
    for (const auto n : sizes) {
      const auto norm = checks_.reduce(n, 4), square = checks_.scalar(4);
      recorder_.free(norm);
      recorder_.free(square);
    }
    const auto total = checks_.scalar(4);
    checks_.mask_nan_or_inf();
    return total;
  }
  std::vector<BlockId> norms;
  for (const auto n : sizes) norms.push_back(checks_.reduce(n, 4));
  const auto k = 4 * static_cast<std::int64_t>(norms.size());
  const auto stack = checks_.scalar(k), squares = checks_.scalar(k);
  recorder_.free(stack);
  const auto sum = checks_.scalar(4), total = checks_.scalar(4);
  checks_.mask_nan_or_inf();
  for (std::size_t i = norms.size() - 1; i-- > 0;) recorder_.free(norms[i]);
  for (const auto b : {sum, norms.back(), squares}) recorder_.free(b);
  return total;
}

// BF16O:step. The fp32 slice is the gradient: only states and scalars are allocated.
void Bf16Optimizer::step(const Accumulation& at) {
  if (!at.boundary()) return;
  const auto norm = global_norm();
  if (run_.versions.switches.norm_before_scale_update) checks_.is_invalid_grad_norm();
  else recorder_.free(checks_.scalar(1));  // assert all_groups_norm > 0.
  if (run_.ds.gradient_clipping > 0) {     // RU:clip_tensors_by_global_norm
    const auto shifted = checks_.scalar(4), reciprocal = checks_.scalar(4), factor = checks_.scalar(4);
    recorder_.free(reciprocal);
    recorder_.free(shifted);
    recorder_.free(checks_.scalar(1));     // clip_coef < 1
    recorder_.free(factor);
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, groups_[g].partition,
                   static_cast<std::int64_t>(g), !states_);
  }
  states_ = true;
  if (at.step > 0) recorder_.free(scalars_.take("global_grad_norm"));
  scalars_.keep("global_grad_norm", norm);
  for (const auto& g : groups_) {
    for (const auto p : g.parameters) {
      auto& grad = gradients_[static_cast<std::size_t>(p)];
      if (grad >= 0) recorder_.free(std::exchange(grad, -1));
    }
  }
}

}  // namespace zplan
