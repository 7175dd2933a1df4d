// The operators of a decoder in the order in which transformers calls them, so that what autograd
// saves and what lives for a moment are the same tensors.
#pragma once

#include <ATen/ATen.h>

#include <utility>

namespace zplan::trainer {

// Qwen3RMSNorm.forward: fp32 inside, the weight multiplied in the model's dtype.
at::Tensor rms_norm(at::Tensor hidden, const at::Tensor& weight, double eps);

// cos and sin of Qwen3RotaryEmbedding.forward, [1, S, D] in `type`.
std::pair<at::Tensor, at::Tensor> rotary_tables(std::int64_t seq_len, std::int64_t head_dim,
                                                double theta, at::ScalarType type,
                                                at::Device device);
// apply_rotary_pos_emb for one of query or key [B, heads, S, D].
at::Tensor apply_rotary(const at::Tensor& states, const at::Tensor& cos, const at::Tensor& sin);

// torch.nn.functional.linear, bias may be undefined.
at::Tensor plain_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);
// LinearFunctionForZeroStage3 (runtime/zero/linear.py): saves the parameter itself, so that
// backward finds whatever is gathered by then; makes the gradient of the input before that of the
// weight.
at::Tensor gathered_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias);

// ForCausalLMLoss: logits to fp32, labels shifted by one, mean over the labels that are not -100.
at::Tensor causal_lm_loss(at::Tensor logits, const at::Tensor& labels);

}  // namespace zplan::trainer
