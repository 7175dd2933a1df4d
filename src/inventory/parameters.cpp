#include "inventory/parameters.h"

#include <initializer_list>

namespace zplan {
namespace {

// Appends tensors in construction order of the HF modules (modeling_qwen3.py, _qwen3_moe, _qwen2, _llama, _mistral).
class Builder {
 public:
  Builder(const Model& model, const Workload& workload) : m_(model), w_(workload) {}

  std::vector<Parameter> build() {
    add(Owner::EmbedTokens, Role::Weight, {m_.vocab, m_.hidden});
    for (layer_ = 0; layer_ < m_.layers; ++layer_) layer();
    layer_ = -1;
    add(Owner::FinalNorm, Role::Weight, {m_.hidden});
    if (!m_.tied_embeddings) add(Owner::LmHead, Role::Weight, {m_.vocab, m_.hidden});
    return std::move(out_);
  }

 private:
  void layer() {
    const auto h = m_.hidden, a = m_.attention_width(), k = m_.kv_width();
    linear(Owner::QProj, h, a, m_.qkv_bias);
    linear(Owner::KProj, h, k, m_.qkv_bias);
    linear(Owner::VProj, h, k, m_.qkv_bias);
    linear(Owner::OProj, a, h, m_.o_bias);
    if (m_.qk_norm) {
      add(Owner::QNorm, Role::Weight, {m_.head_dim});
      add(Owner::KNorm, Role::Weight, {m_.head_dim});
    }
    if (m_.experts) {
      const auto e = m_.experts->count, i = m_.experts->intermediate;
      add(Owner::Experts, Role::ExpertGateUp, {e, 2 * i, h});
      add(Owner::Experts, Role::ExpertDown, {e, h, i});
      add(Owner::Router, Role::Weight, {e, h});
    } else {
      linear(Owner::GateProj, h, m_.intermediate, m_.mlp_bias);
      linear(Owner::UpProj, h, m_.intermediate, m_.mlp_bias);
      linear(Owner::DownProj, m_.intermediate, h, m_.mlp_bias);
    }
    add(Owner::InputNorm, Role::Weight, {h});
    add(Owner::PostNorm, Role::Weight, {h});
  }

  // nn.Linear, wrapped by PEFT's lora.Linear when adapters are asked for: base weight, base bias, A, B.
  void linear(Owner owner, std::int64_t in, std::int64_t out, bool bias) {
    add(owner, Role::Weight, {out, in});
    if (bias) add(owner, Role::Bias, {out});
    if (!w_.adapted()) return;
    add(owner, Role::LoraA, {w_.lora_rank, in});
    add(owner, Role::LoraB, {out, w_.lora_rank});
  }

  void add(Owner owner, Role role, std::initializer_list<std::int64_t> shape) {
    Parameter p;
    p.owner = owner;
    p.role = role;
    p.layer = layer_;
    p.shape = shape;
    p.numel = 1;
    for (const auto n : shape) p.numel *= n;
    p.trainable = trainable(p);
    p.quantized = w_.finetune == Finetune::Qlora && role == Role::Weight && shape.size() == 2 &&
                  owner != Owner::EmbedTokens && owner != Owner::LmHead && owner != Owner::Router;
    out_.push_back(std::move(p));
  }

  bool trainable(const Parameter& p) const {
    if (w_.adapted()) return p.adapter();
    if (w_.finetune == Finetune::Freeze) {
      return p.owner != Owner::EmbedTokens && (p.layer < 0 || p.layer >= w_.freeze_layers);
    }
    return true;
  }

  const Model& m_;
  const Workload& w_;
  std::int64_t layer_ = -1;
  std::vector<Parameter> out_;
};

const char* module_path(Owner owner) {
  switch (owner) {
    case Owner::EmbedTokens: return "model.embed_tokens";
    case Owner::QProj: return "self_attn.q_proj";
    case Owner::KProj: return "self_attn.k_proj";
    case Owner::VProj: return "self_attn.v_proj";
    case Owner::OProj: return "self_attn.o_proj";
    case Owner::QNorm: return "self_attn.q_norm";
    case Owner::KNorm: return "self_attn.k_norm";
    case Owner::GateProj: return "mlp.gate_proj";
    case Owner::UpProj: return "mlp.up_proj";
    case Owner::DownProj: return "mlp.down_proj";
    case Owner::Experts: return "mlp.experts";
    case Owner::Router: return "mlp.gate";
    case Owner::InputNorm: return "input_layernorm";
    case Owner::PostNorm: return "post_attention_layernorm";
    case Owner::FinalNorm: return "model.norm";
    case Owner::LmHead: return "lm_head";
  }
  return "";
}

const char* tensor_name(Role role) {
  switch (role) {
    case Role::Weight: return ".weight";
    case Role::Bias: return ".bias";
    case Role::LoraA: return ".lora_A.default.weight";
    case Role::LoraB: return ".lora_B.default.weight";
    case Role::ExpertGateUp: return ".gate_up_proj";
    case Role::ExpertDown: return ".down_proj";
  }
  return "";
}

}  // namespace

std::string name(const Parameter& p) {
  const std::string prefix = p.layer >= 0 ? "model.layers." + std::to_string(p.layer) + "." : "";
  return prefix + module_path(p.owner) + tensor_name(p.role);
}

std::vector<Parameter> parameters(const Model& model, const Workload& workload) {
  return Builder(model, workload).build();
}

std::vector<Parameter> parameters(const Model& model) { return parameters(model, Workload{}); }

std::int64_t parameter_group(const Parameter& p, std::int64_t groups) {
  return groups > 1 && (p.role == Role::Bias || p.shape.size() == 1) ? 1 : 0;
}

Elements total_elements(const std::vector<Parameter>& parameters) {
  Elements n;
  for (const auto& p : parameters) n += Elements{p.numel};
  return n;
}

Elements trainable_elements(const std::vector<Parameter>& parameters) {
  Elements n;
  for (const auto& p : parameters) n += Elements{p.trainable ? p.numel : 0};
  return n;
}

}  // namespace zplan
