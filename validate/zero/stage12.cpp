#include "zero/stage12.h"

#include <cmath>
#include <optional>

#include "device.h"
#include "zero/bucket_reducer.h"
#include "zero/flat_layout.h"
#include "zero/host_partition.h"

namespace zplan::trainer {
namespace {

class Stage12 final : public Engine {
 public:
  Stage12(EngineSetup setup, ParameterList parameters)
      : Engine(std::move(setup), std::move(parameters)),
        layout_(parameters_, comm().size()),
        reducer_(setup_, parameters_, layout_, [this](std::size_t i) { own(i); }) {}

  void initialize() override {
    const at::NoGradGuard no_graph;
    empty_cache(setup_.device);
    flatten();
    const at::Tensor mine = part();
    if (setup_.ds.zero.offload_optimizer.device == OffloadDevice::Cpu) {
      host_.emplace(setup_, parameters_, layout_, mine);
    } else {
      master_ = mine.clone().to(at::kFloat);
      const at::Tensor zero_gradient =
          at::zeros_like(master_);  // S12:initialize_optimizer_states, for a moment
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      on_gradient(*parameters_[i], [this, i] {
        reducer_.allocate();
        if (reduces_in_backward()) reducer_.add(i);
      });
    }
  }

  void after_backward() override {
    if (!reduces_in_backward()) {
      if (!boundary()) return;  // stage 1: gradients wait in the parameters
      for (std::size_t i = 0; i < parameters_.size(); ++i) reducer_.add(i);
    }
    reducer_.finish();
    if (!host_) keep_micro_step();
    for (Parameter* p : parameters_) p->value.mutable_grad().reset();
    owned_.clear();
  }

  bool step() override {
    const at::NoGradGuard no_graph;
    const bool stepped = host_ ? step_on_host() : step_on_device();
    scaler_.update(!stepped);
    if (stepped) comm().all_gather(flat_, part());
    return stepped;
  }

  std::string optimizer_classes() const override {
    return std::string("DeepSpeedZeroOptimizer/") + (host_ ? "DeepSpeedCPUAdam" : "FusedAdam");
  }

 private:
  at::Tensor part() const {
    return flat_.narrow(0, comm().rank() * layout_.part(), layout_.part());
  }

  // Stage 2 reduces every micro-step in the hooks; stage 1 only with overlap_comm, and then at the
  // boundary.
  bool reduces_in_backward() const {
    return setup_.ds.zero.stage == 2 || (setup_.ds.zero.overlap_comm && boundary());
  }

  void flatten() {
    for (Parameter* p : parameters_) p->value.set_data(p->value.to(setup_.device));
    std::vector<at::Tensor> values;
    for (const Parameter* p : parameters_) values.push_back(p->value.detach().view(-1));
    const std::int64_t padding = layout_.padded() - layout_.total();
    if (padding > 0) values.push_back(at::zeros({padding}, values.front().options()));
    flat_ = at::cat(values);
    values.clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      Parameter& p = *parameters_[i];
      p.value.set_data(flat_.narrow(0, layout_.begin(i), p.numel).view(p.shape));
    }
  }

  // S12:copy_grads_in_partition, on the reduction lane.
  void own(std::size_t i) {
    Parameter& p = *parameters_[i];
    if (host_) {
      host_->take(i, first_micro_step(), boundary());
      return;
    }
    if (!in_partition_.defined()) {
      std::int64_t total = 0;
      for (std::size_t j = 0; j < parameters_.size(); ++j) {
        if (layout_.owned(j, comm().rank()).numel > 0) total += parameters_[j]->numel;
      }
      in_partition_ = at::empty({total}, p.value.options().requires_grad(false));
      in_partition_filled_ = 0;
    }
    at::Tensor place = in_partition_.narrow(0, in_partition_filled_, p.numel);
    place.copy_(p.value.grad().view(-1));
    in_partition_filled_ += p.numel;
    p.value.mutable_grad() = place.view(p.shape);
    owned_.emplace_back(i, place);
  }

  // S12:independent_gradient_partition_epilogue: the first micro-step's buffer is kept, later ones
  // are added.
  void keep_micro_step() {
    std::sort(owned_.begin(), owned_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    if (averaged_.empty()) {
      averaged_ = owned_;
    } else {
      for (std::size_t k = 0; k < averaged_.size(); ++k) averaged_[k].second.add_(owned_[k].second);
    }
    in_partition_.reset();
  }

  at::Tensor slice_of(std::size_t i, const at::Tensor& gradient) const {
    const Slice s = layout_.owned(i, comm().rank());
    return gradient.narrow(0, s.begin, s.numel);
  }

  bool step_on_device() {
    std::vector<at::Tensor> slices;
    for (const auto& [i, gradient] : averaged_) slices.push_back(slice_of(i, gradient));
    const auto on_device = at::TensorOptions().device(setup_.device);
    if (setup_.ds.precision == Precision::Fp16 ||
        (setup_.ds.precision == Precision::Bf16 && setup_.ds.bf16_check_grad_overflow)) {
      std::vector<at::Tensor> worst{at::zeros({}, on_device.dtype(at::kFloat))};
      for (const at::Tensor& s : slices) worst.push_back(largest_magnitude(s));
      if (any_overflow(at::stack(worst).max())) {
        averaged_.clear();
        return false;
      }
    }
    at::Tensor squares = at::zeros({}, on_device.dtype(at::kDouble));
    for (const at::Tensor& s : slices) squares.add_(s.to(at::kDouble).norm(2).square());
    gradient_norm_ = std::sqrt(global_sum(squares));
    std::int64_t owned = 0;
    for (const at::Tensor& s : slices) owned += s.numel();
    if (owned < layout_.part())
      slices.push_back(at::zeros({layout_.part() - owned}, flat_.options()));
    at::Tensor gradient = slices.size() == 1 ? slices.front() : at::cat(slices);
    gradient = gradient.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    slices.clear();
    averaged_.clear();
    gradient.mul_(unscale_factor(gradient_norm_));
    gradient_norm_ /= scaler_.scale();
    adam_step(setup_.adam, master_, gradient, state_);
    gradient.reset();
    part().copy_(master_);
    return true;
  }

  bool step_on_host() {
    if (any_overflow(host_->worst())) {
      host_->drop();
      return false;
    }
    gradient_norm_ = std::sqrt(global_sum(host_->squared_norm()));
    host_->step(setup_.adam, unscale_factor(gradient_norm_), part());
    gradient_norm_ /= scaler_.scale();
    return true;
  }

  using Gradients =
      std::vector<std::pair<std::size_t, at::Tensor>>;  // parameter, its whole averaged gradient
  FlatLayout layout_;
  BucketReducer reducer_;
  at::Tensor flat_, master_;
  AdamState state_;
  at::Tensor in_partition_;
  std::int64_t in_partition_filled_ = 0;
  Gradients owned_, averaged_;
  std::optional<HostPartition> host_;
};

}  // namespace

std::unique_ptr<Engine> make_stage12(EngineSetup setup, ParameterList parameters) {
  return std::make_unique<Stage12>(std::move(setup), std::move(parameters));
}

}  // namespace zplan::trainer
