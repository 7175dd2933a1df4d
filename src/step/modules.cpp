#include "step/modules.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace zplan {
namespace {

struct Wrapped {
  Owner owner;
  const char* module;  // the linear, or PEFT's wrapper around it
  const char* prefix;  // of its tensors in the event tables
};
constexpr Wrapped kLinears[] = {
    {Owner::QProj, "q_proj", "q"},      {Owner::KProj, "k_proj", "k"}, {Owner::VProj, "v_proj", "v"},
    {Owner::OProj, "o_proj", "ao"},     {Owner::GateProj, "gate_proj", "gt"},
    {Owner::UpProj, "up_proj", "u"},    {Owner::DownProj, "down_proj", "d"},
};

std::vector<std::int32_t> owned(const std::vector<Parameter>& parameters, std::int64_t layer, Owner owner,
                                bool base, bool a, bool b) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& p = parameters[i];
    if (p.layer != layer || p.owner != owner) continue;
    if (p.role == Role::LoraA ? a : p.role == Role::LoraB ? b : base) out.push_back(static_cast<std::int32_t>(i));
  }
  return out;
}

// Containers hold what stands in them: root everything, model all but the head, layer its layer, self_attn its linears.
void fill_subtrees(Modules& modules, const std::vector<Parameter>& parameters) {
  for (auto& m : modules.all) {
    m.subtree = m.parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& p = parameters[i];
      const auto index = static_cast<std::int32_t>(i);
      const bool attention = p.owner >= Owner::QProj && p.owner <= Owner::KNorm;
      const bool inside = m.name == "root" || (m.name == "model" && p.owner != Owner::LmHead) ||
                          (m.name == "layer" && p.layer == m.layer) || (m.name == "self_attn" && p.layer == m.layer && attention);
      if (inside && std::find(m.subtree.begin(), m.subtree.end(), index) == m.subtree.end()) m.subtree.push_back(index);
    }
  }
}

}  // namespace

bool is_linear(const Module& module) {
  return module.name == "lm_head" ||
         std::any_of(std::begin(kLinears), std::end(kLinears), [&](const Wrapped& w) { return module.name == w.module; });
}

Modules modules(const Model& model, const Workload& workload, const std::vector<Parameter>& parameters, bool leaves) {
  const bool adapted = workload.adapted();
  Modules out;
  const auto outer = [&](const char* name, std::vector<std::int32_t> own) {
    out.outer[name] = static_cast<std::int32_t>(out.all.size());
    Module m;
    m.name = name;
    m.parameters = std::move(own);
    out.all.push_back(std::move(m));
  };
  outer("root", {});
  if (adapted) {  // PeftModel is the root, LoraModel its base model
    outer("lora_model", {});
    outer("causal_lm", {});
  }
  outer("model", {});
  auto embedding = owned(parameters, -1, Owner::EmbedTokens, true, false, false);
  outer("embed_tokens", embedding);
  outer("rotary_emb", {});
  outer("final_norm", owned(parameters, -1, Owner::FinalNorm, true, false, false));
  outer("lm_head", model.tied_embeddings ? embedding : owned(parameters, -1, Owner::LmHead, true, false, false));

  outer("lm_head_weight", {});
  out.all.back().reads = out.all[static_cast<std::size_t>(out.outer.at("lm_head"))].parameters.front();
  out.all.back().reader = out.outer.at("root");

  // The parameters of one layer, as offsets from its first; every layer has the same.
  std::vector<Parameter> first_layer;
  std::int32_t first = -1, per_layer = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].layer != 0) continue;
    if (first < 0) first = static_cast<std::int32_t>(i);
    ++per_layer;
    first_layer.push_back(parameters[i]);
  }
  out.first_layer = static_cast<std::int32_t>(out.all.size());
  std::vector<Module> layer;
  const auto local = [&](const std::string& name, std::vector<std::int32_t> own, bool leaf = false) {
    out.local[name] = static_cast<std::int32_t>(layer.size());
    Module m;
    m.name = name;
    m.layer = 0;
    m.parameters = std::move(own);
    m.leaf = leaf;
    layer.push_back(std::move(m));
  };
  local("layer", {});
  local("self_attn", {});
  for (const auto& linear : kLinears) {
    if (model.experts && (linear.owner == Owner::GateProj || linear.owner == Owner::UpProj || linear.owner == Owner::DownProj)) continue;
    if (!adapted) {
      local(linear.module, owned(first_layer, 0, linear.owner, true, false, false));
      continue;
    }
    const std::string prefix = linear.prefix;
    local(linear.module, {});
    local(prefix + ".base", owned(first_layer, 0, linear.owner, true, false, false));
    local(prefix + ".dropout", {});
    local(prefix + ".lora_a", owned(first_layer, 0, linear.owner, false, true, false));
    local(prefix + ".lora_a_weight", {});
    layer.back().reads = layer[static_cast<std::size_t>(out.local.at(prefix + ".lora_a"))].parameters.front();
    layer.back().reader = out.local.at(linear.module);
    local(prefix + ".lora_b", owned(first_layer, 0, linear.owner, false, false, true));
  }
  if (model.qk_norm) {
    local("q_norm", owned(first_layer, 0, Owner::QNorm, true, false, false));
    local("k_norm", owned(first_layer, 0, Owner::KNorm, true, false, false));
  }
  if (model.experts) {
    const auto stacks = owned(first_layer, 0, Owner::Experts, true, false, false);
    const auto router = owned(first_layer, 0, Owner::Router, true, false, false);
    if (leaves) {
      // Qwen3MoeSparseMoeBlock is a default leaf class (zero/leaf_module_config.py): experts and router as one.
      auto own = stacks;
      own.insert(own.end(), router.begin(), router.end());
      local("mlp", std::move(own), true);
    } else {
      local("mlp", {});
      local("router", router);
      local("experts", stacks);
    }
    local("experts_gate_up", {});
    layer.back().reads = stacks[0];
    local("experts_down", {});
    layer.back().reads = stacks[1];
  } else {
    local("mlp", {});
    local("act_fn", {});
  }
  local("input_norm", owned(first_layer, 0, Owner::InputNorm, true, false, false));
  local("post_norm", owned(first_layer, 0, Owner::PostNorm, true, false, false));
  out.per_layer = static_cast<std::int32_t>(layer.size());
  for (std::int64_t l = 0; l < model.layers; ++l) {
    for (auto module : layer) {
      module.layer = l;
      const auto parameter_base = first + static_cast<std::int32_t>(l) * per_layer;
      for (auto& p : module.parameters) p += parameter_base;
      if (module.reads >= 0) {
        module.reads += parameter_base;
        module.reader += out.first_layer + static_cast<std::int32_t>(l) * out.per_layer;
      }
      out.all.push_back(std::move(module));
    }
  }
  if (model.experts && leaves) fill_subtrees(out, parameters);
  return out;
}

}  // namespace zplan
