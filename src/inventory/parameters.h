// Every parameter tensor of a model by name and shape, in the order of HF's named_parameters().
// ZeRO walks this order: it decides flat buffers, sub-groups, ownership and gather order.
// Derived in docs/memory-model.md#parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model.h"
#include "spec/workload.h"
#include "units/units.h"

namespace zplan {

// The module of a decoder that owns a tensor.
enum class Owner : std::uint8_t {
  EmbedTokens, QProj, KProj, VProj, OProj, QNorm, KNorm, GateProj, UpProj, DownProj,
  Experts, Router, InputNorm, PostNorm, FinalNorm, LmHead,
};
// Which tensor of that module.
enum class Role : std::uint8_t { Weight, Bias, LoraA, LoraB, ExpertGateUp, ExpertDown };

struct Parameter {
  Owner owner = Owner::EmbedTokens;
  Role role = Role::Weight;
  std::int64_t layer = -1;            // -1: outside the decoder layers
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  bool trainable = true;
  bool quantized = false;             // stored as 4-bit (QLoRA base weights of linears)
  bool adapter() const { return role == Role::LoraA || role == Role::LoraB; }
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

// Name as in HF / PEFT: "model.layers.3.self_attn.q_proj.weight".
std::string name(const Parameter& parameter);

// All parameters of `model` when fine-tuned as `workload` says. Adapters (rank r on every linear but the
// head) stand where PEFT puts them: after the weight they adapt. A tied head has no tensor of its own.
std::vector<Parameter> parameters(const Model& model, const Workload& workload);
// The plain model, everything trainable.
std::vector<Parameter> parameters(const Model& model);

// The optimizer's parameter group: with two groups as the HF Trainer makes them, norms and biases do not decay and
// form group 1 (transformers trainer.py, get_decay_parameter_names).
std::int64_t parameter_group(const Parameter& parameter, std::int64_t groups);

// Sum over the tensors.
Elements total_elements(const std::vector<Parameter>& parameters);
Elements trainable_elements(const std::vector<Parameter>& parameters);

}  // namespace zplan
