#include "step/zero0.h"

#include <utility>

#include "step/optimizer.h"

namespace zplan {

Zero0::Zero0(const Run& run, const Script& script, Recorder& recorder)
    : run_(run), script_(script), recorder_(recorder), module_(run, script, recorder), width_(module_.width(0)),
      groups_(parameter_groups(run, script.parameters)), gradients_(script.parameters.size(), -1),
      flat_label_(recorder.label("flat buffer of parameter group", Component::Parameters)),
      clone_label_(recorder.label("clone of parameters", Component::StepTransients)),
      master_label_(recorder.label("fp32 master of parameters", Component::Optimizer)),
      zero_label_(recorder.label("zeros", Component::StepTransients)),
      gradient_label_(recorder.label("fp32 gradient of parameter", Component::StepTransients)),
      reduce_label_(recorder.label("gradients flattened for the all-reduce", Component::CommBuckets)),
      flat_grad_label_(recorder.label("flattened fp32 gradient of parameter group", Component::StepTransients)),
      state_label_(recorder.label("optimizer state", Component::Optimizer)),
      transient_label_(recorder.label("optimizer temporary", Component::StepTransients)),
      scalar_label_(recorder.label("scalar of the engine", Component::StepTransients)),
      check_label_(recorder.label("overflow check of a gradient", Component::StepTransients)),
      checks_(recorder, scalar_label_, check_label_, run.gpu.sm_count, run.versions.switches) {
  // ENG:_configure_fp16_optimizer, ENG:_configure_optimizer.
  const bool half = run.ds.precision != Precision::Fp32 && !run.ds.torch_autocast;
  wrapper_ = !half ? Wrapper::None : run.workload.optimizer == OptimizerKind::DeepSpeedAdam ? Wrapper::Flat : Wrapper::PerParameter;
}

std::int64_t Zero0::numel(const std::vector<std::int32_t>& group) const {
  std::int64_t n = 0;
  for (const auto p : group) n += numel(p);
  return n;
}

std::vector<std::int64_t> Zero0::sizes(const std::vector<std::int32_t>& group) const {
  std::vector<std::int64_t> out;
  for (const auto p : group) out.push_back(numel(p));
  return out;
}

void Zero0::init() {
  module_.move();
  if (run_.workload.optimizer == OptimizerKind::DeepSpeedAdam) recorder_.allocate(4, scalar_label_);  // _dummy_overflow_buf
  if (wrapper_ == Wrapper::Flat) init_flat();
  if (wrapper_ == Wrapper::PerParameter) init_per_parameter();
}

// FP16O:__init__ and initialize_optimizer_states.
void Zero0::init_flat() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto index = static_cast<std::int64_t>(g), n = numel(groups_[g]);
    std::vector<BlockId> clones;
    for (const auto p : groups_[g]) clones.push_back(recorder_.allocate(width_ * numel(p), clone_label_, p));
    recorder_.allocate(width_ * n, flat_label_, index);
    for (auto it = clones.rbegin(); it != clones.rend(); ++it) recorder_.free(*it);
    for (const auto p : groups_[g]) module_.drop(p);
    const auto clone = recorder_.allocate(width_ * n, clone_label_, index);
    recorder_.allocate(4 * n, master_label_, index);
    recorder_.free(clone);
  }
  std::vector<BlockId> zeros;
  for (const auto& g : groups_) zeros.push_back(recorder_.allocate(4 * numel(g), zero_label_));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, numel(groups_[g]), static_cast<std::int64_t>(g), true);
  }
  for (const auto z : zeros) recorder_.free(z);
  states_ = true;
}

// fp16/unfused_optimizer.py __init__ and initialize_optimizer_states.
void Zero0::init_per_parameter() {
  for (const auto& g : groups_) {
    for (const auto p : g) {
      const auto clone = recorder_.allocate(width_ * numel(p), clone_label_, p);
      recorder_.allocate(4 * numel(p), master_label_, p);
      recorder_.free(clone);
    }
  }
  std::vector<BlockId> zeros;
  for (const auto width : {width_, std::int64_t{4}}) {
    for (const auto& g : groups_) {
      for (const auto p : g) zeros.push_back(recorder_.allocate(width * numel(p), zero_label_, p));
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, sizes(groups_[g]), static_cast<std::int64_t>(g), true);
  }
  for (const auto z : zeros) recorder_.free(z);
  states_ = true;
}

void Zero0::gradient(std::int32_t p, BlockId block) {
  auto& grad = gradients_[static_cast<std::size_t>(p)];
  if (grad >= 0 || !script_.parameters[static_cast<std::size_t>(p)].trainable) recorder_.free(block);  // added in place
  else grad = block;
}

// ENG:allreduce_gradients, in the order of module.parameters().
void Zero0::after_backward(const Accumulation& at) {
  if (!at.boundary()) return;
  std::vector<std::int64_t> tensors;
  for (std::size_t p = 0; p < gradients_.size(); ++p) {
    if (gradients_[p] >= 0) tensors.push_back(script_.parameters[p].numel);
  }
  const auto communication = run_.ds.communication_data_type ? width(*run_.ds.communication_data_type).count : width_;
  buffered_allreduce(recorder_, tensors, width_, communication, reduce_label_);
}

void Zero0::step(const Accumulation& at) {
  if (!at.boundary()) return;
  switch (wrapper_) {
    case Wrapper::Flat: step_flat(); break;
    case Wrapper::PerParameter: step_per_parameter(); break;
    case Wrapper::None: step_bare(); break;
  }
}

// RU:CheckOverflow.has_overflow, every gradient.
void Zero0::overflow_check() {
  for (const auto& g : groups_) {
    for (const auto p : g) recorder_.free(checks_.has_inf_or_nan(numel(p), width_));
  }
  recorder_.free(checks_.scalar(1));
}

void Zero0::drop_gradients() {
  for (const auto& g : groups_) {
    for (const auto p : g) {
      auto& grad = gradients_[static_cast<std::size_t>(p)];
      if (grad >= 0) recorder_.free(std::exchange(grad, -1));
    }
  }
}

// FP16O:step: fp32 copies of all gradients, their concatenation, and the gradients themselves live together.
void Zero0::step_flat() {
  overflow_check();
  std::vector<BlockId> flat;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<BlockId> copies;
    for (const auto p : groups_[g]) copies.push_back(recorder_.allocate(4 * numel(p), gradient_label_, p));
    flat.push_back(recorder_.allocate(4 * numel(groups_[g]), flat_grad_label_, static_cast<std::int64_t>(g)));
    for (auto it = copies.rbegin(); it != copies.rend(); ++it) recorder_.free(*it);
    for (const auto p : groups_[g]) recorder_.free(std::exchange(gradients_[static_cast<std::size_t>(p)], -1));
  }
  // RU:get_flattened_grad_norm.
  BlockId norm = -1;
  for (const auto& g : groups_) {
    const auto next = checks_.reduce(numel(g), 4);
    if (norm >= 0) recorder_.free(norm);
    norm = next;
  }
  recorder_.free(checks_.scalar(4));
  recorder_.free(norm);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, numel(groups_[g]), static_cast<std::int64_t>(g), !states_);
  }
  states_ = true;
  for (const auto f : flat) recorder_.free(f);
}

// fp16/unfused_optimizer.py step: the gradients stay until the engine's zero_grad.
void Zero0::step_per_parameter() {
  overflow_check();
  std::vector<BlockId> copies;
  for (const auto& g : groups_) {
    // RU:get_weight_norm: each gradient in fp32; the sum of squares is made once and added to in place.
    BlockId norm = -1, sum = -1;
    for (const auto p : g) {
      const auto whole = recorder_.allocate(4 * numel(p), gradient_label_, p);
      const auto next = checks_.reduce(numel(p), 4);
      recorder_.free(whole);
      if (norm >= 0) recorder_.free(norm);
      norm = next;
      const auto square = checks_.scalar(4);
      if (sum < 0) sum = checks_.scalar(4);
      recorder_.free(square);
    }
    const auto total = checks_.scalar(4);
    for (const auto b : {sum, total, norm}) recorder_.free(b);
    for (const auto p : g) copies.push_back(recorder_.allocate(4 * numel(p), gradient_label_, p));
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, sizes(groups_[g]), static_cast<std::int64_t>(g), !states_);
  }
  states_ = true;
  for (const auto c : copies) recorder_.free(c);
  drop_gradients();
}

// RU:clip_grad_norm_ (ENG:clip_fp32_gradients): the norm of all gradients, averaged over the ranks.
void Zero0::clip_fp32_gradients() {
  std::vector<BlockId> norms;
  for (const auto& g : groups_) {
    for (const auto p : g) norms.push_back(checks_.reduce(numel(p), 4));
  }
  const auto k = 4 * static_cast<std::int64_t>(norms.size());
  const auto stack = checks_.scalar(k), squares = checks_.scalar(k);
  recorder_.free(stack);
  const auto sum = checks_.scalar(4);
  recorder_.free(squares);
  const auto norm = checks_.scalar(4);
  recorder_.free(sum);
  const auto scaled = checks_.scalar(4), averaged = checks_.scalar(4);
  recorder_.free(scaled);
  recorder_.free(norm);
  const auto max_norm = checks_.scalar(4), shifted = checks_.scalar(4), quotient = checks_.scalar(4);
  recorder_.free(shifted);
  const auto one = checks_.scalar(4), coefficient = checks_.scalar(4);
  recorder_.free(quotient);
  recorder_.free(max_norm);
  for (std::size_t i = norms.size() - 1; i-- > 0;) recorder_.free(norms[i]);  // the loop's variable holds the last
  recorder_.free(norms.back());
  for (const auto b : {coefficient, one, averaged}) recorder_.free(b);
}

void Zero0::step_bare() {
  if (run_.ds.gradient_clipping > 0) clip_fp32_gradients();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    optimizer_step(recorder_, run_.workload.optimizer, {state_label_, transient_label_}, sizes(groups_[g]), static_cast<std::int64_t>(g), !states_);
  }
  states_ = true;
  drop_gradients();
}

}  // namespace zplan
