#include "model/decoder.h"

#include <cmath>

#include "model/checkpoint.h"
#include "model/operators.h"
#include "spec/error.h"

namespace zplan::trainer {

Decoder::Decoder(const Model& model, const DecoderOptions& options)
    : model_(model), options_(options) {
  if (model.experts) {
    throw InputError("zplan-validate",
                     model.name + " is a mixture of experts, which this trainer cannot run",
                     "measure it with the DeepSpeed probe, or choose a dense model");
  }
  if (options.recompute.offload) {
    throw InputError("zplan-validate", "checkpoints in host memory cannot be run by this trainer",
                     "measure them with the DeepSpeed probe, or keep boundaries on the GPU");
  }
  root_ = add_module("");
  inner_ = add_module("model");
  embedding_ = add_module("model.embed_tokens");
  embedding_weight_ = add_parameter(embedding_, "weight", {model.vocab, model.hidden});
  for (std::int64_t l = 0; l < model.layers; ++l) {
    layers_.push_back(add_layer("model.layers." + std::to_string(l)));
  }
  norm_ = add_norm("model.norm", model.hidden);
  rotary_ = add_module("model.rotary_emb");
  if (model.tied_embeddings) {
    Module* head = add_module("lm_head");
    head->own.push_back(embedding_weight_);
    head_ = {head, embedding_weight_, nullptr};
  } else {
    head_ = add_linear("lm_head", model.hidden, model.vocab, false);
  }
}

Module* Decoder::add_module(const std::string& name) {
  auto module = std::make_unique<Module>();
  module->name = name;
  module->id = static_cast<std::int64_t>(modules_.size());
  modules_.push_back(std::move(module));
  return modules_.back().get();
}

Parameter* Decoder::add_parameter(Module* module, const std::string& leaf,
                                  std::vector<std::int64_t> shape) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = module->name + "." + leaf;
  parameter->numel = 1;
  for (const std::int64_t n : shape) parameter->numel *= n;
  parameter->shape = std::move(shape);
  parameter->id = static_cast<std::int64_t>(parameters_.size());
  module->own.push_back(parameter.get());
  parameters_.push_back(std::move(parameter));
  return parameters_.back().get();
}

Decoder::Linear Decoder::add_linear(const std::string& name, std::int64_t in, std::int64_t out,
                                    bool bias) {
  Module* module = add_module(name);
  Parameter* weight = add_parameter(module, "weight", {out, in});
  return {module, weight, bias ? add_parameter(module, "bias", {out}) : nullptr};
}

Decoder::Norm Decoder::add_norm(const std::string& name, std::int64_t width) {
  Module* module = add_module(name);
  return {module, add_parameter(module, "weight", {width})};
}

Decoder::Layer Decoder::add_layer(const std::string& name) {
  const auto H = model_.hidden, A = model_.attention_width(), K = model_.kv_width(),
             F = model_.intermediate;
  Layer l{};
  l.module = add_module(name);
  l.attention = add_module(name + ".self_attn");
  l.q = add_linear(name + ".self_attn.q_proj", H, A, model_.qkv_bias);
  l.k = add_linear(name + ".self_attn.k_proj", H, K, model_.qkv_bias);
  l.v = add_linear(name + ".self_attn.v_proj", H, K, model_.qkv_bias);
  l.o = add_linear(name + ".self_attn.o_proj", A, H, model_.o_bias);
  if (model_.qk_norm) {
    l.q_norm = add_norm(name + ".self_attn.q_norm", model_.head_dim);
    l.k_norm = add_norm(name + ".self_attn.k_norm", model_.head_dim);
  }
  l.mlp = add_module(name + ".mlp");
  l.gate = add_linear(name + ".mlp.gate_proj", H, F, model_.mlp_bias);
  l.up = add_linear(name + ".mlp.up_proj", H, F, model_.mlp_bias);
  l.down = add_linear(name + ".mlp.down_proj", F, H, model_.mlp_bias);
  l.activation = add_module(name + ".mlp.act_fn");
  l.input_norm = add_norm(name + ".input_layernorm", H);
  l.post_norm = add_norm(name + ".post_attention_layernorm", H);
  return l;
}

at::Tensor Decoder::run(const Linear& linear, const at::Tensor& x) const {
  return call(*linear.module, hooks_, x, [&](const at::Tensor& in) {
    const at::Tensor bias = linear.bias ? linear.bias->value : at::Tensor();
    return hooks_ ? gathered_linear(in, linear.weight->value, bias)
                  : plain_linear(in, linear.weight->value, bias);
  });
}

at::Tensor Decoder::run(const Norm& norm, const at::Tensor& x) const {
  return call(*norm.module, hooks_, x, [&](const at::Tensor& in) {
    return rms_norm(in, norm.weight->value, options_.norm_eps);
  });
}

at::Tensor Decoder::attention(const Layer& l, const at::Tensor& hidden,
                              const Tables& rotary) const {
  const auto B = hidden.size(0), S = hidden.size(1), D = model_.head_dim;
  const auto heads = [&](const at::Tensor& x) { return x.view({B, S, -1, D}); };
  at::Tensor query = model_.qk_norm ? run(l.q_norm, heads(run(l.q, hidden))).transpose(1, 2)
                                    : heads(run(l.q, hidden)).transpose(1, 2);
  at::Tensor key = model_.qk_norm ? run(l.k_norm, heads(run(l.k, hidden))).transpose(1, 2)
                                  : heads(run(l.k, hidden)).transpose(1, 2);
  const at::Tensor value = heads(run(l.v, hidden)).transpose(1, 2);
  {  // both are replaced only when both are done, as apply_rotary_pos_emb returns a pair
    at::Tensor turned_query = apply_rotary(query, rotary.first, rotary.second);
    at::Tensor turned_key = apply_rotary(key, rotary.first, rotary.second);
    query = std::move(turned_query);
    key = std::move(turned_key);
  }
  at::Tensor out = at::scaled_dot_product_attention(query, key, value, {}, 0.0, /*is_causal=*/true,
                                                    1.0 / std::sqrt(static_cast<double>(D)),
                                                    /*enable_gqa=*/model_.heads != model_.kv_heads);
  out = out.transpose(1, 2).contiguous();
  out = out.reshape({B, S, -1}).contiguous();
  out = run(l.o, out);
  return out;
}

at::Tensor Decoder::mlp(const Layer& l, const at::Tensor& hidden) const {
  at::Tensor product;
  {
    at::Tensor activated = run(l.gate, hidden);
    activated =
        call(*l.activation, hooks_, activated, [](const at::Tensor& x) { return at::silu(x); });
    product = activated * run(l.up, hidden);
  }
  return run(l.down, product);
}

at::Tensor Decoder::layer(const Layer& l, const at::Tensor& input, const Tables& rotary) const {
  return call(*l.module, hooks_, input, [&](const at::Tensor& x) {
    at::Tensor hidden = run(l.input_norm, x);
    hidden = call(
        *l.attention, hooks_, hidden,
        [&](const at::Tensor& in) { return attention(l, in, rotary); }, Input::Keyword);
    hidden = x + hidden;
    const at::Tensor residual = hidden;
    hidden = run(l.post_norm, hidden);
    hidden = call(*l.mlp, hooks_, hidden, [&](const at::Tensor& in) { return mlp(l, in); });
    hidden = residual + hidden;
    return hidden;
  });
}

at::Tensor Decoder::backbone(const at::Tensor& ids) const {
  return call(*inner_, hooks_, ids, [&](const at::Tensor& in) {
    at::Tensor embedded = call(*embedding_, hooks_, in, [&](const at::Tensor& i) {
      return at::embedding(embedding_weight_->value, i);
    });
    Tables rotary;
    const auto tables = [&](const at::Tensor&) {
      rotary = rotary_tables(in.size(1), model_.head_dim, options_.rope_theta, options_.type,
                             options_.device);
      return rotary.first;
    };
    call(*rotary_, hooks_, in, tables);
    at::Tensor hidden = embedded;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& l = layers_[i];
      if (!options_.recompute.at(static_cast<std::int64_t>(i))) {
        hidden = layer(l, hidden, rotary);
        continue;
      }
      // The closure outlives this call: it must hold the tables themselves.
      const Region region = [this, &l, rotary](const at::Tensor& x) { return layer(l, x, rotary); };
      hidden = options_.recompute.impl == RecomputeImpl::Reentrant
                   ? checkpoint_reentrant(region, hidden)
                   : checkpoint_non_reentrant(region, hidden);
    }
    rotary = {};
    hidden = run(norm_, hidden);
    return hidden;
  });
}

at::Tensor Decoder::loss(const at::Tensor& ids) const {
  return call(*root_, hooks_, ids, [&](const at::Tensor& in) {
    const at::Tensor hidden = backbone(in);
    const at::Tensor logits = run(head_, hidden);
    return causal_lm_loss(logits, in);
  });
}

}  // namespace zplan::trainer
