#include "step/script_compiler.h"

#include <set>
#include <stdexcept>
#include <utility>

#include "step/tables/all.h"

namespace zplan {
namespace {

using Op = Instruction::Op;
using Kind = TableOp::Kind;

// The tensor whose gradient a `hook:` hands over, by its name in the tables.
struct Hook {
  Owner owner;
  Role role;
};
const std::map<std::string, Hook>& layer_hooks() {
  static const std::map<std::string, Hook> hooks = [] {
    std::map<std::string, Hook> h = {
        {"dWq", {Owner::QProj, Role::Weight}},        {"dWk", {Owner::KProj, Role::Weight}},
        {"dWv", {Owner::VProj, Role::Weight}},        {"dWo", {Owner::OProj, Role::Weight}},
        {"dWg", {Owner::GateProj, Role::Weight}},     {"dWu", {Owner::UpProj, Role::Weight}},
        {"dWd", {Owner::DownProj, Role::Weight}},     {"dbq", {Owner::QProj, Role::Bias}},
        {"dbk", {Owner::KProj, Role::Bias}},          {"dbv", {Owner::VProj, Role::Bias}},
        {"dW1", {Owner::Experts, Role::ExpertGateUp}}, {"dW2", {Owner::Experts, Role::ExpertDown}},
        {"dWr", {Owner::Router, Role::Weight}},       {"a.dw", {Owner::InputNorm, Role::Weight}},
        {"b.dw", {Owner::PostNorm, Role::Weight}},    {"qn.dw", {Owner::QNorm, Role::Weight}},
        {"kn.dw", {Owner::KNorm, Role::Weight}}};
    const std::pair<const char*, Owner> adapters[] = {
        {"q", Owner::QProj}, {"k", Owner::KProj}, {"v", Owner::VProj}, {"ao", Owner::OProj},
        {"gt", Owner::GateProj}, {"u", Owner::UpProj}, {"d", Owner::DownProj}};
    for (const auto& [prefix, owner] : adapters) {
      h[std::string(prefix) + ".dA"] = {owner, Role::LoraA};
      h[std::string(prefix) + ".dB"] = {owner, Role::LoraB};
    }
    return h;
  }();
  return hooks;
}

Component component_of(const std::string& full_name, bool outer) {
  const auto dot = full_name.rfind('.');
  const std::string n = dot == std::string::npos ? full_name : full_name.substr(dot + 1);
  static const std::set<std::string> workspace = {"ws", "sem", "cw", "cb", "ct", "ga", "gb"};
  static const std::set<std::string> loss = {"lg", "lf", "lab", "ls", "l1", "l2", "g1", "g2", "gl", "gi", "ck", "pad",
                                             "mk", "cn", "cr", "loss", "one", "eq", "all", "i1", "i2", "i3", "t1", "t2"};
  if (workspace.count(n)) return Component::Workspace;
  if (outer && loss.count(full_name)) return Component::LogitsLoss;
  if (n.rfind("dW", 0) == 0 || n == "dw" || n == "dA" || n == "dB" || n.rfind("db", 0) == 0 ||
      (outer && (n == "dE" || n == "dT" || n == "gw"))) {
    return Component::Gradients;
  }
  return Component::Activations;
}

}  // namespace

Compiler::Compiler(const Run& run) : run_(run), sizes_(sizes_of(run)) {
  script_.parameters = parameters(run.model, run.workload);
  script_.modules = modules(run.model, run.workload, script_.parameters, run.versions.switches.default_leaf_modules);
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    if (script_.parameters[i].layer != 0) continue;
    if (script_.parameters_per_layer++ == 0) script_.first_layer_parameter = static_cast<std::int32_t>(i);
  }
}

Instructions Compiler::outer(const TableRows& rows, Pass pass, const Bound& bound) {
  return compile(table_book().expand(rows, sizes_, bound), pass, nullptr, false);
}

Instructions Compiler::layer(const TableRows& rows, Pass pass, bool first, const Bound& bound,
                             const Instructions* recompute) {
  first_ = first;
  return compile(table_book().expand(rows, sizes_, bound), pass, recompute, true);
}

Script Compiler::finish() {
  script_.outer_slots = static_cast<std::int32_t>(outer_slots_.size());
  script_.layer_slots = static_cast<std::int32_t>(layer_slots_.size());
  return std::move(script_);
}

Compiler::Slot Compiler::slot(const std::string& name, bool layer) {
  static const std::set<std::string> shared = {"dout", "cos", "sin", "pos", "emb", "mask"};
  if (layer && name == "x") return first_ ? slot("emb", false) : Slot{index(layer_slots_, "out"), true, -1};
  if (!layer && name == "xlast") return {index(layer_slots_, "out"), true, -1};  // run as layer L
  if (layer && !shared.count(name)) return {index(layer_slots_, name), true, 0};
  // The gradient leaving the final norm is the running gradient.
  return {index(outer_slots_, name == "f.dx" ? "dout" : name), false, 0};
}

std::int32_t Compiler::index(std::map<std::string, std::int32_t>& slots, const std::string& name) {
  return slots.emplace(name, static_cast<std::int32_t>(slots.size())).first->second;
}

std::uint16_t Compiler::label(const TableOp& op, bool layer) {
  const std::string text = op.step + ": " + op.name;
  const auto [it, fresh] = labels_.emplace(text, static_cast<std::uint16_t>(script_.labels.size()));
  if (fresh) script_.labels.push_back({text, component_of(op.name, !layer)});
  return it->second;
}

Instructions Compiler::compile(const std::vector<TableOp>& ops, Pass pass, const Instructions* recompute, bool layer) {
  Instructions out;
  for (const auto& op : ops) {
    Instruction i;
    i.local = layer;
    switch (op.kind) {
      case Kind::Allocate:
        i.op = Op::Allocate;
        i.bytes = op.bytes;
        i.flops = static_cast<float>(product_flops(op.step, op.name));
        i.label = label(op, layer);
        place(i, op.name, layer);
        break;
      case Kind::Free:
        i.op = Op::Free;
        place(i, op.name, layer);
        break;
      case Kind::Rename:
        i.op = Op::Rename;
        place(i, op.name, layer);
        i.other = index(layer_slots_, op.other);
        break;
      case Kind::Hook:
        i.op = Op::Gradient;
        place(i, op.name, layer);
        i.other = layer ? layer_parameter(op.name) : outer_parameter(op.name);
        if (i.other < 0) continue;
        break;
      case Kind::Enter:
      case Kind::Leave:
        i.op = op.kind == Kind::Enter ? (pass == Pass::Forward ? Op::EnterForward : Op::EnterBackward)
                                      : (pass == Pass::Forward ? Op::LeaveForward : Op::LeaveBackward);
        if (!module(i, op.name, layer)) continue;
        break;
      case Kind::Weight: {
        static const std::map<std::string, std::string> norms = {
            {"a.w", "input_norm"}, {"b.w", "post_norm"}, {"qn.w", "q_norm"}, {"kn.w", "k_norm"}};
        i.op = Op::DropWeight;
        const auto norm = norms.find(op.name);
        if (!module(i, norm == norms.end() ? op.name : norm->second, layer)) continue;
        break;
      }
      case Kind::Cublas:
        i.op = pass == Pass::Forward ? Op::ForwardCublas : Op::BackwardCublas;
        i.other = op.name == "@cublaslt" ? 1 : 0;
        break;
      case Kind::Recompute:
        if (recompute) {
          for (auto r : *recompute) {
            r.recompute = true;
            if (r.op == Op::ForwardCublas) r.op = Op::BackwardCublas;
            out.push_back(r);
          }
        }
        continue;
    }
    out.push_back(i);
  }
  return out;
}

double Compiler::product_flops(const std::string& step, const std::string& name) const {
  static const std::map<std::string, std::string> products = {
      {"q_proj", "HA"}, {"k_proj", "HK"}, {"v_proj", "HK"}, {"o_proj", "AH"},
      {"gate", "HF"},   {"up", "HF"},     {"down", "HF"},   {"lm_head", "HV"},  {"chunk", "HV"}};
  const auto n = static_cast<double>(run_.tokens());
  static const std::set<std::string> scaled = {"sq", "doc"}, products_of_scores = {"sc", "av", "dkr", "dqs"};  // fp32
  if ((step == "sdpa" && !scaled.count(name)) || products_of_scores.count(name)) return 2 * n * static_cast<double>(run_.workload.seq_len * run_.model.attention_width());
  const auto it = products.find(step);
  // Of an adapted linear only the base product counts; workspaces, biases and copies are no products.
  static const std::set<std::string> base = {"y0", "dxb", "dy"};
  static const std::set<std::string> others = {"ws", "sem", "ga", "gb", "dbq", "dbk", "dbv", "w", "am", "ab", "ac"};
  const auto dot = name.rfind('.');
  const auto suffix = dot == std::string::npos ? name : name.substr(dot + 1);
  if (it == products.end() || others.count(suffix) || (dot != std::string::npos && !base.count(suffix))) return 0;
  return 2 * n * static_cast<double>(evaluate(it->second, sizes_)) * (step == "chunk" ? 3 : 1);
}

void Compiler::place(Instruction& i, const std::string& name, bool layer) {
  const auto s = slot(name, layer);
  i.slot = s.index;
  i.layer_shift = s.shift;
  i.local = s.local;
}

bool Compiler::module(Instruction& i, const std::string& name, bool layer) {
  const auto& names = layer ? script_.modules.local : script_.modules.outer;
  const auto it = names.find(name);
  if (it == names.end()) return false;
  i.other = it->second;
  return true;
}

std::int32_t Compiler::layer_parameter(const std::string& name) const {
  const auto it = layer_hooks().find(name);
  if (it == layer_hooks().end()) throw std::logic_error("event table: hook of unknown gradient " + name);
  for (std::int32_t i = 0; i < script_.parameters_per_layer; ++i) {
    const auto& p = script_.parameters[static_cast<std::size_t>(script_.first_layer_parameter + i)];
    if (p.owner == it->second.owner && p.role == it->second.role) return i;
  }
  return -1;
}

std::int32_t Compiler::outer_parameter(const std::string& name) const {
  const Owner owner = name == "f.dw" ? Owner::FinalNorm
                      : (name == "dWh" || name == "gw") && !run_.model.tied_embeddings ? Owner::LmHead : Owner::EmbedTokens;
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    if (script_.parameters[i].owner == owner) return static_cast<std::int32_t>(i);
  }
  return -1;
}

}  // namespace zplan
