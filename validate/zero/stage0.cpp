#include "zero/stage0.h"

#include <cmath>

namespace zplan::trainer {
namespace {

constexpr std::int64_t kAllReduceBucket =
    500'000'000;  // ENG:allreduce_gradients(bucket_size=MEMORY_OPT_ALLREDUCE_SIZE)

class Stage0 final : public Engine {
 public:
  using Engine::Engine;

  void initialize() override {
    const at::NoGradGuard no_graph;
    for (Parameter* p : parameters_) p->value.set_data(p->value.to(setup_.device));
    if (wide()) return;
    {
      std::vector<at::Tensor>
          clones;  // FP16O:__init__ clones each parameter before it flattens them
      for (const Parameter* p : parameters_) clones.push_back(p->value.detach().clone().view(-1));
      flat_ = at::cat(clones);
    }
    std::int64_t at = 0;
    for (Parameter* p : parameters_) {
      p->value.set_data(flat_.narrow(0, at, p->numel).view(p->shape));
      at += p->numel;
    }
    master_ = flat_.clone().to(at::kFloat);
    // FP16O:initialize_optimizer_states steps once over zero gradients, so the states exist from
    // here on.
    const at::Tensor zero_gradient = at::zeros_like(master_);
    state_.exp_avg = at::zeros_like(master_);
    state_.exp_avg_sq = at::zeros_like(master_);
    state_.steps = at::zeros({}, master_.options());
  }

  void after_backward() override {
    if (boundary()) all_reduce_gradients();
  }

  bool step() override {
    const at::NoGradGuard no_graph;
    const bool stepped = wide() ? step_wide() : step_flat();
    for (Parameter* p : parameters_) p->value.mutable_grad().reset();
    scaler_.update(!stepped);
    return stepped;
  }

  std::string optimizer_classes() const override {
    return wide() ? "AdamW" : "FP16_Optimizer/FusedAdam";
  }

 private:
  bool wide() const { return setup_.ds.precision == Precision::Fp32; }

  // ENG:buffered_allreduce_fallback: a copy of each bucket is reduced and copied back.
  void all_reduce_gradients() {
    for (std::size_t i = 0; i < parameters_.size();) {
      std::vector<at::Tensor> bucket;
      std::int64_t n = 0;
      while (i < parameters_.size() && n <= kAllReduceBucket) {
        bucket.push_back(parameters_[i]->value.grad().view(-1));
        n += parameters_[i++]->numel;
      }
      const at::Tensor flat = at::cat(bucket);
      comm().all_reduce(flat);
      flat.mul_(1.0 / comm().size());
      std::int64_t at = 0;
      for (at::Tensor& g : bucket) {
        g.copy_(flat.narrow(0, at, g.numel()));
        at += g.numel();
      }
    }
  }

  bool step_flat() {
    std::vector<at::Tensor> worst;
    for (const Parameter* p : parameters_) worst.push_back(largest_magnitude(p->value.grad()));
    if (any_overflow(at::stack(worst).max())) return false;
    at::Tensor gradient;
    {
      std::vector<at::Tensor> copies;
      for (const Parameter* p : parameters_)
        copies.push_back(p->value.grad().to(at::kFloat).view(-1));
      gradient = at::cat(copies);
    }
    for (Parameter* p : parameters_) p->value.mutable_grad().reset();
    gradient_norm_ = gradient.norm(2).item<double>();
    gradient.mul_(unscale_factor(gradient_norm_));
    gradient_norm_ /= scaler_.scale();
    adam_step(setup_.adam, master_, gradient, state_);
    gradient.reset();
    flat_.copy_(master_);
    return true;
  }

  bool step_wide() {
    std::vector<at::Tensor> norms;
    for (const Parameter* p : parameters_) norms.push_back(p->value.grad().norm(2));
    gradient_norm_ = at::stack(norms).norm(2).item<double>();
    const double factor = unscale_factor(gradient_norm_);
    states_.resize(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor gradient = parameters_[i]->value.grad();
      if (factor != 1.0) gradient.mul_(factor);
      adam_step(setup_.adam, parameters_[i]->value.detach(), gradient, states_[i]);
    }
    return true;
  }

  at::Tensor flat_, master_;
  AdamState state_;
  std::vector<AdamState> states_;  // fp32: one a parameter
};

}  // namespace

std::unique_ptr<Engine> make_stage0(EngineSetup setup, ParameterList parameters) {
  return std::make_unique<Stage0>(std::move(setup), std::move(parameters));
}

}  // namespace zplan::trainer
