#include "zero/stage3.h"

#include <cmath>
#include <unordered_map>

#include "spec/error.h"
#include "zero/coordinator.h"
#include "zero/slice_reducer.h"

namespace zplan::trainer {
namespace {

// Consecutive parameters that the optimizer steps together (S3:_create_fp16_sub_groups).
struct SubGroup {
  std::size_t first = 0, last = 0;    // parameters [first, last)
  std::int64_t begin = 0, numel = 0;  // slice elements in the flat buffers
  at::Tensor master, gradient;        // fp32; `gradient` only with offload, pinned
  AdamState state;
};

class Stage3 final : public Engine {
 public:
  Stage3(EngineSetup setup, ParameterList parameters)
      : Engine(std::move(setup), std::move(parameters)) {
    if (offload_param() && !offload_optimizer()) {
      throw InputError("ds_config:/zero_optimization/offload_param",
                       "parameters in host memory need their optimizer there too",
                       "add offload_optimizer with device cpu");
    }
  }

  // PP:Init: the whole value on the device for a moment, then this rank's slice of it.
  void adopt(Parameter& parameter, at::Tensor full) override {
    const at::NoGradGuard no_graph;
    auto p = std::make_unique<Partitioned>();
    p->parameter = &parameter;
    p->slice_numel = ceil_div(parameter.numel, comm().size());
    p->persistent =
        parameter.numel <= setup_.ds.zero.stage3_param_persistence_threshold &&
        persistent_numel_ + parameter.numel <= setup_.ds.zero.stage3_model_persistence_threshold;
    if (p->persistent) persistent_numel_ += parameter.numel;
    parameter.value = full.to(setup_.device);
    full.reset();
    p->slice = slice_of(parameter, p->slice_numel);
    if (offload_param()) {
      at::Tensor host = host_empty({p->slice_numel}, type(), setup_.device,
                                   setup_.ds.zero.offload_param.pin_memory);
      host.copy_(p->slice);
      p->slice = host;
    }
    parameter.value.requires_grad_(true);
    p->free();
    partitioned_.push_back(std::move(p));
  }

  void initialize() override {
    const at::NoGradGuard no_graph;
    make_sub_groups();
    defragment();
    for (SubGroup& g : groups_) make_master(g);
    if (!offload_optimizer()) {
      std::int64_t largest = 0;
      for (const SubGroup& g : groups_) largest = std::max(largest, g.numel);
      const at::Tensor zero_gradient =
          at::zeros({largest}, on_device(at::kFloat));  // S3:initialize_optimizer_states
    }
    gradients_ = offload_optimizer() ? host_empty({part_}, type(), setup_.device, pin())
                                     : at::empty({part_}, on_device(type()));
    gradients_.zero_();
    std::unordered_map<const Parameter*, Partitioned*> by_parameter;
    for (const auto& p : partitioned_) by_parameter[p->parameter] = p.get();
    coordinator_ =
        std::make_unique<Coordinator>(setup_.ds.zero, comm(), setup_.device, by_parameter);
    reducer_ = std::make_unique<SliceReducer>(setup_, partitioned_, targets());
    for (std::size_t i = 0; i < partitioned_.size(); ++i) add_hook(i);
    synchronize(setup_.device);
  }

  ModuleHooks* hooks() override { return coordinator_.get(); }
  void before_forward() override { coordinator_->reset_step(); }

  void after_backward() override {
    reducer_->finish();
    coordinator_->release_leftovers();
  }

  bool step() override {
    const at::NoGradGuard no_graph;
    coordinator_->release_all();
    const bool stepped = apply();
    scaler_.update(!stepped);
    gather_persistent();
    return stepped;
  }

  std::string optimizer_classes() const override {
    return std::string("DeepSpeedZeroOptimizer_Stage3/") +
           (offload_optimizer() ? "DeepSpeedCPUAdam" : "FusedAdam");
  }

 private:
  bool offload_optimizer() const {
    return setup_.ds.zero.offload_optimizer.device == OffloadDevice::Cpu;
  }
  bool offload_param() const { return setup_.ds.zero.offload_param.device == OffloadDevice::Cpu; }
  bool pin() const { return setup_.ds.zero.offload_optimizer.pin_memory; }
  at::TensorOptions on_device(at::ScalarType t) const {
    return at::TensorOptions().dtype(t).device(setup_.device);
  }

  at::Tensor slice_of(const Parameter& parameter, std::int64_t size) const {
    const std::int64_t from = std::min(comm().rank() * size, parameter.numel);
    const std::int64_t n = std::min(size, parameter.numel - from);
    at::Tensor slice = at::empty({size}, on_device(type()));
    slice.narrow(0, 0, n).copy_(parameter.value.view(-1).narrow(0, from, n));
    if (n < size) slice.narrow(0, n, size - n).zero_();
    return slice;
  }

  void make_sub_groups() {
    for (std::size_t i = 0; i < partitioned_.size(); ++i) {
      if (groups_.empty() || groups_.back().numel >= setup_.ds.zero.sub_group_size) {
        groups_.push_back({});
        groups_.back().first = i;
        groups_.back().begin = part_;
      }
      groups_.back().last = i + 1;
      groups_.back().numel += partitioned_[i]->slice_numel;
      part_ += partitioned_[i]->slice_numel;
    }
  }

  // RU:defragment: all slices through host memory into one buffer, so that the device never holds
  // both.
  void defragment() {
    at::Tensor flat = offload_param() ? host_empty({part_}, type(), setup_.device, true)
                                      : at::empty({part_}, at::TensorOptions().dtype(type()));
    place_slices(flat);
    if (!offload_param()) {
      for (const auto& p : partitioned_) p->slice.reset();
      empty_cache(setup_.device);
      weights_ = at::empty({part_}, on_device(type()));
      weights_.copy_(flat);
    } else {
      weights_ = flat;
    }
    std::int64_t at = 0;
    for (const auto& p : partitioned_) {
      p->slice = weights_.narrow(0, at, p->slice_numel);
      at += p->slice_numel;
    }
  }

  void place_slices(at::Tensor flat) const {
    std::int64_t at = 0;
    for (const auto& p : partitioned_) {
      flat.narrow(0, at, p->slice_numel).copy_(p->slice);
      at += p->slice_numel;
    }
  }

  void make_master(SubGroup& g) {
    const at::Tensor weights = weights_.narrow(0, g.begin, g.numel);
    const at::Device where = offload_optimizer() ? at::Device(at::kCPU) : setup_.device;
    const at::Tensor converted = weights.to(where).to(at::kFloat);
    g.master = converted.clone();
    if (offload_optimizer())
      g.gradient = host_empty({g.numel}, at::kFloat, setup_.device, pin()).zero_();
  }

  std::vector<SliceTarget> targets() const {
    std::vector<SliceTarget> all;
    std::int64_t at = 0;
    for (const SubGroup& g : groups_) {
      for (std::size_t i = g.first; i < g.last; ++i) {
        const std::int64_t n = partitioned_[i]->slice_numel;
        all.push_back({gradients_.narrow(0, at, n),
                       offload_optimizer() ? g.gradient.narrow(0, at - g.begin, n) : at::Tensor()});
        at += n;
      }
    }
    return all;
  }

  // S3:create_reduce_and_remove_grad_hooks gathers and frees each parameter once.
  void add_hook(std::size_t i) {
    gather_each({partitioned_[i].get()}, comm(), setup_.device);
    on_gradient(*partitioned_[i]->parameter,
                [this, i] { reducer_->add(i, first_micro_step(), boundary()); });
    partitioned_[i]->free();
  }

  bool apply() {
    if (setup_.ds.precision == Precision::Fp16 && overflowed()) return false;
    at::Tensor squares =
        offload_optimizer() ? reducer_->take_squared_norm() : at::zeros({}, on_device(at::kDouble));
    if (!offload_optimizer()) {
      std::int64_t at = 0;
      for (const auto& p : partitioned_) {
        squares.add_(gradients_.narrow(0, at, p->slice_numel).to(at::kDouble).norm(2).square());
        at += p->slice_numel;
      }
    }
    gradient_norm_ = std::sqrt(global_sum(squares));
    const double factor = unscale_factor(gradient_norm_);
    gradient_norm_ /= scaler_.scale();
    if (offload_optimizer()) synchronize(setup_.device);
    for (SubGroup& g : groups_) step_group(g, factor);
    return true;
  }

  // fp16 only (S3:_overflow_check_and_loss_scale_update); over the whole flat gradient.
  bool overflowed() {
    const at::Tensor bad = gradients_.isinf().any().logical_or(gradients_.isnan().any());
    const bool any = global_sum(bad.to(setup_.device).to(at::kDouble)) > 0;
    if (any && offload_optimizer()) reducer_->take_squared_norm();
    return any;
  }

  void step_group(SubGroup& g, double factor) {
    at::Tensor gradient = g.gradient;
    if (!offload_optimizer()) {
      std::vector<at::Tensor> pieces;
      std::int64_t at = g.begin;
      for (std::size_t i = g.first; i < g.last; at += partitioned_[i++]->slice_numel) {
        pieces.push_back(gradients_.narrow(0, at, partitioned_[i]->slice_numel));
      }
      // One parameter: flatten is a view, and only the conversion copies.
      gradient = pieces.size() == 1 ? pieces.front() : at::cat(pieces);
      gradient = gradient.to(at::kFloat, /*non_blocking=*/false, /*copy=*/pieces.size() == 1);
    }
    gradient.mul_(factor);
    adam_step(setup_.adam, g.master, gradient, g.state);
    gradient.reset();
    weights_.narrow(0, g.begin, g.numel).copy_(g.master);
  }

  void gather_persistent() {
    std::vector<Partitioned*> persistent;
    for (const auto& p : partitioned_) {
      if (p->persistent) persistent.push_back(p.get());
    }
    gather_each(persistent, comm(), setup_.device);
    synchronize(setup_.device);
  }

  std::vector<std::unique_ptr<Partitioned>> partitioned_;
  std::vector<SubGroup> groups_;
  std::int64_t part_ = 0, persistent_numel_ = 0;
  at::Tensor weights_, gradients_;  // flat: this rank's slices, and their gradients
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<SliceReducer> reducer_;
};

}  // namespace

std::unique_ptr<Engine> make_stage3(EngineSetup setup, ParameterList parameters) {
  return std::make_unique<Stage3>(std::move(setup), std::move(parameters));
}

}  // namespace zplan::trainer
