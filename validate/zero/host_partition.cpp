#include "zero/host_partition.h"

namespace zplan::trainer {

HostPartition::HostPartition(const EngineSetup& setup, const ParameterList& parameters,
                             const FlatLayout& layout, const at::Tensor& weights)
    : setup_(setup), parameters_(parameters), layout_(layout) {
  const bool pin = setup.ds.zero.offload_optimizer.pin_memory;
  const at::ScalarType type = weights.scalar_type();
  std::int64_t largest = 0;
  for (const Parameter* p : parameters) largest = std::max(largest, p->numel);
  const auto host = [&](std::int64_t n, at::ScalarType t) {
    return host_empty({n}, t, setup.device, pin);
  };
  master_ = host(layout.part(), at::kFloat);
  master_.copy_(weights.clone());
  staging_unused_ = host(largest, type);
  scratch_ = at::empty({largest}, weights.options());
  gradient_ = host(layout.part(), at::kFloat).zero_();
  staging_ = host(layout.part(), type);
}

void HostPartition::take(std::size_t parameter, bool first_micro_step, bool boundary) {
  Parameter& p = *parameters_[parameter];
  at::Tensor gradient = p.value.grad().view(-1);
  // Stage 1 accumulates in the parameters and comes here once; stage 2 comes with every micro-step.
  if (setup_.ds.zero.stage == 2 && setup_.ds.gradient_accumulation_steps > 1) {
    at::Tensor& kept = accumulated_[parameter];
    if (!kept.defined()) {
      kept = host_empty({p.numel}, gradient.scalar_type(), setup_.device,
                        setup_.ds.zero.offload_optimizer.pin_memory);
    }
    if (!first_micro_step) {
      at::Tensor before = scratch_.narrow(0, 0, p.numel);
      before.copy_(kept, /*non_blocking=*/true);
      gradient.add_(before);
    }
    if (!boundary) kept.copy_(gradient, /*non_blocking=*/true);
  }
  if (boundary) {
    const Slice slice = layout_.owned(parameter, setup_.communicator->rank());
    const at::Tensor mine = gradient.narrow(0, slice.begin, slice.numel);
    norms_.push_back(mine.to(at::kDouble).norm(2));
    worst_.push_back(largest_magnitude(gradient));
    const std::int64_t at =
        layout_.begin(parameter) + slice.begin - setup_.communicator->rank() * layout_.part();
    gradient_.narrow(0, at, slice.numel).copy_(mine.to(at::kFloat), /*non_blocking=*/true);
  }
  p.value.mutable_grad().reset();
}

at::Tensor HostPartition::squared_norm() const {
  if (norms_.empty())
    return at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(setup_.device));
  return at::stack(norms_).square().sum();
}

at::Tensor HostPartition::worst() const {
  if (worst_.empty())
    return at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(setup_.device));
  return at::stack(worst_).max();
}

void HostPartition::step(const AdamSettings& settings, double factor, at::Tensor weights) {
  synchronize(setup_.device);
  gradient_.mul_(factor);
  adam_step(settings, master_, gradient_, state_);
  staging_.copy_(master_);
  weights.copy_(staging_, /*non_blocking=*/true);
  drop();
}

void HostPartition::drop() {
  norms_.clear();
  worst_.clear();
}

}  // namespace zplan::trainer
