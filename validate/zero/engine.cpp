#include "zero/engine.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

#include "spec/error.h"
#include "zero/stage0.h"
#include "zero/stage12.h"
#include "zero/stage3.h"

namespace zplan::trainer {
namespace {

struct GradientHook final : torch::autograd::PostAccumulateGradHook {
  explicit GradientHook(std::function<void()> f) : ready(std::move(f)) {}
  void operator()(const at::Tensor&) override {
    const at::NoGradGuard no_graph;
    ready();
  }
  std::function<void()> ready;
};

[[noreturn]] void not_mirrored(const std::string& what, const std::string& fix) {
  throw InputError("ds_config", what + " is not built into zplan-validate", fix);
}

void require_mirrored(const DsConfig& ds) {
  const ZeroConfig& z = ds.zero;
  const std::string probe = "measure it with the DeepSpeed probe, or change it for this run";
  if (ds.torch_autocast) not_mirrored("torch_autocast", probe);
  if (ds.bf16_master_weights_and_grads || ds.bf16_optimizer_states)
    not_mirrored("low-precision states", probe);
  if (ds.accumulation_dtype() != ds.precision) not_mirrored("data_types.grad_accum_dtype", probe);
  if (ds.communication_data_type.value_or(ds.precision) != ds.precision) {
    not_mirrored("communication_data_type", probe);
  }
  if (z.offload_optimizer.device == OffloadDevice::Nvme ||
      z.offload_param.device == OffloadDevice::Nvme) {
    not_mirrored("offload to NVMe", "use device cpu, or measure it with the DeepSpeed probe");
  }
  if (z.zero_hpz_partition_size > 1 || z.zero_quantized_weights || z.zero_quantized_gradients ||
      z.zero_quantized_nontrainable_weights) {
    not_mirrored("ZeRO++", probe);
  }
  if (!z.contiguous_gradients) not_mirrored("contiguous_gradients: false", probe);
  if (z.stage > 0 && (!z.reduce_scatter || !z.use_multi_rank_bucket_allreduce)) {
    not_mirrored("reduce_scatter or use_multi_rank_bucket_allreduce: false", probe);
  }
  if (z.round_robin_gradients) not_mirrored("round_robin_gradients", probe);
  if (z.stage == 3 &&
      (z.stage3_module_granularity_threshold > 0 || z.stage3_use_all_reduce_for_fetch_params ||
       !z.memory_efficient_linear)) {
    not_mirrored("this way of gathering parameters", probe);
  }
  if (z.offload_optimizer.ratio < 1) not_mirrored("offload_optimizer.ratio", probe);
}

}  // namespace

Engine::Engine(EngineSetup setup, ParameterList parameters)
    : setup_(std::move(setup)),
      parameters_(std::move(parameters)),
      scaler_(setup_.ds.precision == Precision::Fp16) {}

Engine::~Engine() = default;

void Engine::adopt(Parameter& parameter, at::Tensor full) {
  parameter.value = std::move(full);
  parameter.value.requires_grad_(true);
}

void Engine::backward(const at::Tensor& loss) {
  micro_step_ = (micro_step_ + 1) % setup_.ds.gradient_accumulation_steps;
  before_backward();
  const double factor =
      scaler_.scale() / static_cast<double>(setup_.ds.gradient_accumulation_steps);
  const at::Tensor scaled = factor == 1.0 ? loss : loss * factor;
  torch::autograd::backward({scaled}, {});
  {
    const at::NoGradGuard no_graph;
    after_backward();
  }
}

void Engine::on_gradient(Parameter& parameter, std::function<void()> ready) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter.value,
                                                 std::make_unique<GradientHook>(std::move(ready)));
}

at::ScalarType Engine::type() const { return scalar_type(setup_.ds.precision); }

double Engine::global_sum(const at::Tensor& mine) const {
  at::Tensor sum = mine.to(at::kDouble).reshape({1});
  comm().all_reduce(sum);
  return sum.item<double>();
}

bool Engine::any_overflow(const at::Tensor& worst) const {
  return global_sum(at::isfinite(worst).logical_not().to(at::kDouble)) > 0;
}

double Engine::unscale_factor(double gradient_norm) const {
  const double limit = setup_.ds.gradient_clipping;
  double divisor = scaler_.scale();
  if (limit > 0) divisor *= std::max(1.0, (gradient_norm / scaler_.scale() + 1e-6) / limit);
  return 1.0 / divisor;
}

at::ScalarType scalar_type(Precision precision) {
  switch (precision) {
    case Precision::Bf16:
      return at::kBFloat16;
    case Precision::Fp16:
      return at::kHalf;
    case Precision::Fp32:
      return at::kFloat;
  }
  return at::kFloat;
}

at::Tensor largest_magnitude(const at::Tensor& tensor) {
  return at::maximum(tensor.amax().abs(), tensor.amin().abs()).to(at::kFloat);
}

std::unique_ptr<Engine> make_engine(EngineSetup setup, ParameterList parameters) {
  require_mirrored(setup.ds);
  switch (setup.ds.zero.stage) {
    case 0:
      return make_stage0(std::move(setup), std::move(parameters));
    case 1:
    case 2:
      return make_stage12(std::move(setup), std::move(parameters));
    case 3:
      return make_stage3(std::move(setup), std::move(parameters));
  }
  throw InputError("ds_config:/zero_optimization/stage",
                   std::to_string(setup.ds.zero.stage) + " is not a stage", "use 0, 1, 2 or 3");
}

}  // namespace zplan::trainer
