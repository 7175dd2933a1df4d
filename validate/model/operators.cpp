#include "model/operators.h"

#include <torch/csrc/autograd/custom_function.h>

namespace zplan::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rotate_half(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.slice(-1, 0, half), second = x.slice(-1, half);
  return at::cat({second.neg(), first}, -1);
}

struct GatheredLinear : torch::autograd::Function<GatheredLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    ctx->save_for_backward({input, weight});
    ctx->saved_data["bias"] = bias.has_value();
    at::Tensor output = input.matmul(weight.t());
    if (bias) output.add_(*bias);
    return output;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor grad = grads[0];
    const bool biased = ctx->saved_data["bias"].toBool();
    at::Tensor grad_input, grad_weight, grad_bias;
    const variable_list saved = ctx->get_saved_variables();
    if (ctx->needs_input_grad(0)) grad_input = grad.matmul(saved[1]);
    if (ctx->needs_input_grad(1)) {
      grad_weight =
          grad.reshape({-1, grad.size(-1)}).t().matmul(saved[0].reshape({-1, saved[0].size(-1)}));
    }
    if (biased) {
      std::vector<std::int64_t> rows;
      for (std::int64_t d = 0; d + 1 < grad.dim(); ++d) rows.push_back(d);
      grad_bias = grad.sum(rows);
    }
    return {grad_input, grad_weight, grad_bias};
  }
};

}  // namespace

at::Tensor rms_norm(at::Tensor hidden, const at::Tensor& weight, double eps) {
  const auto type = hidden.scalar_type();
  hidden = hidden.to(at::kFloat);
  const at::Tensor variance = hidden.pow(2).mean(-1, /*keepdim=*/true);
  hidden = hidden * at::rsqrt(variance + eps);
  return weight * hidden.to(type);
}

std::pair<at::Tensor, at::Tensor> rotary_tables(std::int64_t seq_len, std::int64_t head_dim,
                                                double theta, at::ScalarType type,
                                                at::Device device) {
  const auto in_fp32 = at::TensorOptions().dtype(at::kFloat).device(device);
  const at::Tensor inverse =
      at::pow(theta, at::arange(0, head_dim, 2, in_fp32).div(static_cast<double>(head_dim)))
          .reciprocal();
  const at::Tensor positions =
      at::arange(seq_len, at::TensorOptions().dtype(at::kLong).device(device));
  const at::Tensor frequencies =
      inverse.view({1, -1, 1}).matmul(positions.view({1, 1, -1}).to(at::kFloat)).transpose(1, 2);
  const at::Tensor both = at::cat({frequencies, frequencies}, -1);
  const at::Tensor cos = both.cos(), sin = both.sin();
  return {cos.to(type), sin.to(type)};
}

at::Tensor apply_rotary(const at::Tensor& states, const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor straight = states * cos.unsqueeze(1);
  return straight + rotate_half(states) * sin.unsqueeze(1);
}

at::Tensor plain_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(input, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

at::Tensor gathered_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias) {
  return GatheredLinear::apply(input, weight,
                               bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

at::Tensor causal_lm_loss(at::Tensor logits, const at::Tensor& labels) {
  logits = logits.to(at::kFloat);
  const at::Tensor shifted =
      at::constant_pad_nd(labels, {0, 1}, -100).slice(1, 1).contiguous().view(-1);
  logits = logits.view({-1, logits.size(-1)});
  return at::cross_entropy_loss(logits, shifted, /*weight=*/{}, at::Reduction::Mean,
                                /*ignore_index=*/-100);
}

}  // namespace zplan::trainer
