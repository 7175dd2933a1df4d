// Chooses the event tables for a run's kernels and turns them into instructions.
#include <algorithm>
#include <initializer_list>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "step/engine.h"
#include "step/script.h"
#include "step/table.h"
#include "step/tables/all.h"
#include "step/tables/eager_attention.h"
#include "step/tables/masked_attention.h"

namespace zplan {
namespace {

using Op = Instruction::Op;
using Kind = TableOp::Kind;
enum class Pass { Forward, Backward };

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

// The mask lives through the model's forward: eager always makes one, sdpa for a batch that is really padded.
bool holds_mask(const Run& run) {
  return run.workload.attention == Attention::Eager || (run.workload.attention_mask && run.workload.attention == Attention::Sdpa);
}

// Qwen2Model and Qwen3Model drop the embedding and the rotary tables before the position ids, other models after.
bool passes_positions_first(const Model& model) { return model.model_type != "qwen2" && model.model_type != "qwen3"; }

TableRows append(TableRows rows, const TableRows& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

// Models without norms on q and k: the rotary embedding works on the projections themselves.
TableRows without_qk_norm(TableRows rows, bool adapted) {
  const std::pair<std::string, std::string> renamed[] = {
      {"qn.y", adapted ? "q.y" : "q"}, {"kn.y", adapted ? "k.y" : "k"}, {"kn.dx", "kn.dy"}, {"qn.dx", "qn.dy"}};
  TableRows out;
  for (auto& row : rows) {
    if (row.step == "q_norm" || row.step == "k_norm") continue;
    for (const auto& [from, to] : renamed) {
      const auto at = row.frees.find(from);
      if (at != std::string::npos) row.frees.replace(at, from.size(), to);
    }
    out.push_back(std::move(row));
  }
  return out;
}

// Linears of q, k and v with a bias (Qwen2): addmm and ZeRO-3's linear make the input gradient, then the weight's,
// then the bias's. addmm's bias hook comes before its weight's, zero/linear.py's after.
TableRows with_qkv_bias(TableRows rows, bool zero3) {
  const std::array<std::array<const char*, 3>, 3> linears = {{{"v_proj", "v", "K"}, {"k_proj", "k", "K"}, {"q_proj", "q", "A"}}};
  const auto cut = [](std::string& s, const std::string& what) {
    const auto at = s.find(what);
    if (at != std::string::npos) s.erase(at, what.size());
    return at != std::string::npos;
  };
  for (auto& row : rows) {
    // addmm adds the bias in cuBLASLt; zero/linear.py after a matmul.
    if (!zero3 && row.step == "q_proj" && row.allocates.rfind("q=2NA", 0) == 0) row.allocates += " @cublaslt";
    // The bias is summed before autograd adds up the input gradients: the weight's hook comes with it.
    if (!zero3 && row.step == "sum 2") cut(row.frees, " hook:dWk");
    if (!zero3 && row.step == "k_proj" && row.allocates.find("dWk") != std::string::npos) row.frees += " hook:dWk";
    if (!zero3 && row.step == "q_proj" && cut(row.frees, " z3 hook:dWq")) row.frees += " hook:dWq z3";
    for (const auto& [step, letter, columns] : linears) {
      const std::string hook = std::string("hook:dW") + letter;
      const auto at = row.frees.find(hook);
      if (row.step != step || at == std::string::npos) continue;
      const std::string bias = std::string("hook:db") + letter;
      if (zero3) row.frees.insert(at + hook.size(), " " + bias);
      else row.frees.insert(at, bias + " ");
      row.frees.insert(0, "sem ws ");
      if (row.allocates.rfind("dW", 0) == 0) {  // plain linear: weight first, now second
        const auto space = row.allocates.find(' ');
        row.allocates = row.allocates.substr(space + 1) + " " + row.allocates.substr(0, space);
      }
      row.allocates += std::string(" db") + letter + "=2" + columns + " ws=ws(N," + columns + ") sem=sem(N," + columns + ")";
    }
  }
  return rows;
}

// The steps of embedding_dense_backward in place of the row that makes dE.
TableRows with_sorted_embedding(const TableRows& rows) {
  TableRows out = table_book().rows("ES");
  for (const auto& row : rows) {
    if (row.step == "embedding") out.push_back({"embedded", "", row.frees, ""});
    else out.push_back(row);
  }
  return out;
}

// Compiles expanded tables into instructions; names become slots.
class Compiler {
 public:
  explicit Compiler(const Run& run) : run_(run), sizes_(sizes_of(run)) {
    script_.parameters = parameters(run.model, run.workload);
    script_.modules = modules(run.model, run.workload, script_.parameters);
    for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
      if (script_.parameters[i].layer != 0) continue;
      if (script_.parameters_per_layer++ == 0) script_.first_layer_parameter = static_cast<std::int32_t>(i);
    }
  }

  const Sizes& sizes() const { return sizes_; }
  const Run& run() const { return run_; }
  Script& script() { return script_; }

  // Instructions of tables outside the layers.
  Instructions outer(const TableRows& rows, Pass pass, const std::map<std::string, std::vector<std::string>>& bound) {
    return compile(table_book().expand(rows, sizes_, bound), pass, nullptr, false);
  }

  // Instructions of one layer; `first`: its input is the embedding's output. recompute: run at @recompute.
  Instructions layer(const TableRows& rows, Pass pass, bool first, const std::map<std::string, std::vector<std::string>>& bound,
                     const Instructions* recompute = nullptr) {
    first_ = first;
    return compile(table_book().expand(rows, sizes_, bound), pass, recompute, true);
  }

  Script finish() {
    script_.outer_slots = static_cast<std::int32_t>(outer_slots_.size());
    script_.layer_slots = static_cast<std::int32_t>(layer_slots_.size());
    return std::move(script_);
  }

 private:
  struct Slot {
    std::int32_t index;
    bool local;
    std::int8_t shift;
  };

  Slot slot(const std::string& name, bool layer) {
    static const std::set<std::string> shared = {"dout", "cos", "sin", "pos", "emb", "mask"};
    if (layer && name == "x") return first_ ? slot("emb", false) : Slot{index(layer_slots_, "out"), true, -1};
    if (!layer && name == "xlast") return {index(layer_slots_, "out"), true, -1};  // run as layer L
    if (layer && !shared.count(name)) return {index(layer_slots_, name), true, 0};
    // The gradient leaving the final norm is the running gradient.
    return {index(outer_slots_, name == "f.dx" ? "dout" : name), false, 0};
  }

  static std::int32_t index(std::map<std::string, std::int32_t>& slots, const std::string& name) {
    return slots.emplace(name, static_cast<std::int32_t>(slots.size())).first->second;
  }

  std::uint16_t label(const TableOp& op, bool layer) {
    const std::string text = op.step + ": " + op.name;
    const auto [it, fresh] = labels_.emplace(text, static_cast<std::uint16_t>(script_.labels.size()));
    if (fresh) script_.labels.push_back({text, component_of(op.name, !layer)});
    return it->second;
  }

  Instructions compile(const std::vector<TableOp>& ops, Pass pass, const Instructions* recompute, bool layer) {
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

  // Multiply-adds of the matrix product of a row, forward or one of the two of backward; 0 for other operators.
  double product_flops(const std::string& step, const std::string& name) const {
    static const std::map<std::string, std::string> products = {
        {"q_proj", "HA"}, {"k_proj", "HK"}, {"v_proj", "HK"}, {"v_proj 2", "HK"}, {"o_proj", "AH"},
        {"gate", "HF"},   {"up", "HF"},     {"down", "HF"},   {"lm_head", "HV"},  {"chunk", "HV"}};
    const auto n = static_cast<double>(run_.tokens());
    if (step == "sdpa") return 2 * n * static_cast<double>(run_.workload.seq_len * run_.model.attention_width());
    const auto it = products.find(step);
    // Of an adapted linear only the base product counts; workspaces, biases and copies are no products.
    static const std::set<std::string> base = {"y0", "dxb", "dy"};
    static const std::set<std::string> others = {"ws", "sem", "ga", "gb", "dbq", "dbk", "dbv", "w", "am", "ab", "ac"};
    const auto dot = name.rfind('.');
    const auto suffix = dot == std::string::npos ? name : name.substr(dot + 1);
    if (it == products.end() || others.count(suffix) || (dot != std::string::npos && !base.count(suffix))) return 0;
    return 2 * n * static_cast<double>(evaluate(it->second, sizes_)) * (step == "chunk" ? 3 : 1);
  }

  void place(Instruction& i, const std::string& name, bool layer) {
    const auto s = slot(name, layer);
    i.slot = s.index;
    i.layer_shift = s.shift;
    i.local = s.local;
  }

  bool module(Instruction& i, const std::string& name, bool layer) {
    const auto& names = layer ? script_.modules.local : script_.modules.outer;
    const auto it = names.find(name);
    if (it == names.end()) return false;
    i.other = it->second;
    return true;
  }

  std::int32_t layer_parameter(const std::string& name) const {
    const auto it = layer_hooks().find(name);
    if (it == layer_hooks().end()) throw std::logic_error("event table: hook of unknown gradient " + name);
    for (std::int32_t i = 0; i < script_.parameters_per_layer; ++i) {
      const auto& p = script_.parameters[static_cast<std::size_t>(script_.first_layer_parameter + i)];
      if (p.owner == it->second.owner && p.role == it->second.role) return i;
    }
    return -1;
  }

  std::int32_t outer_parameter(const std::string& name) const {
    const Owner owner = name == "f.dw" ? Owner::FinalNorm
                        : (name == "dWh" || name == "gw") && !run_.model.tied_embeddings ? Owner::LmHead : Owner::EmbedTokens;
    for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
      if (script_.parameters[i].owner == owner) return static_cast<std::int32_t>(i);
    }
    return -1;
  }

  const Run& run_;
  Sizes sizes_;
  Script script_;
  bool first_ = false;
  std::map<std::string, std::int32_t> outer_slots_, layer_slots_;
  std::map<std::string, std::uint16_t> labels_;
};

using Bound = std::map<std::string, std::vector<std::string>>;

// The tables of one layer for the run's fine-tuning, attention and stage.
// fp32 end to end, with the plain linear of stages 0-2. Checkpointing, adapters and eager attention in fp32 use the
// 16-bit tables.
bool full_precision(const Run& run) {
  const bool fp32 = run.ds.precision == Precision::Fp32 && !run.ds.torch_autocast;
  return fp32 && run.ds.zero.stage < 3 && run.workload.finetune == Finetune::Full && !run.workload.recompute.any() &&
         run.workload.attention == Attention::Sdpa && !run.workload.kernels.any() && !run.model.experts;
}

// Liger's norms, rotary embedding and SwiGLU together, below ZeRO-3. A part of them, checkpointed layers and ZeRO-3 use
// the tables of transformers' own modules.
bool liger_layers(const Run& run) {
  const auto& k = run.workload.kernels;
  return k.rms_norm && k.rope && k.swiglu && run.ds.zero.stage < 3 && run.ds.precision != Precision::Fp32 &&
         run.workload.finetune == Finetune::Full && !run.workload.recompute.any() &&
         run.workload.attention == Attention::Sdpa && !run.workload.attention_mask && !run.model.experts;
}

class LayerTables {
 public:
  explicit LayerTables(const Run& run)
      : book_(table_book()), run_(run), zero3_(run.ds.zero.stage == 3),
        adapted_(run.workload.finetune == Finetune::Lora || run.workload.finetune == Finetune::Qlora),
        fp32_adapters_(adapted_ && zero3_) {}

  // Kept for backward. first: the layer above the embedding.
  TableRows forward(bool first) const {
    if (run_.model.experts) return experts("LF", Part::Kept, "MF");
    if (full_precision(run_)) return finished(book_.rows("FF"));
    if (liger_layers(run_)) return finished(book_.rows("VF"));
    if (!adapted_) return finished(attention(book_.rows("LF"), Part::Kept));
    auto rows = book_.rows("LG");
    if (fp32_adapters_) rows = with_macro(rows, "GF", "ZF");
    // Neither the frozen embedding's output nor the norm's weight takes a gradient.
    for (auto& row : rows) {
      if (first && !input_takes_gradient() && row.step == "input norm") row = with_macro({row}, "NZ", "NE").front();
    }
    return finished(quantized(rows));
  }

  // An evaluation: nothing kept, under no_grad.
  TableRows evaluation() const { return without_lse(forward_nothing_kept()); }

  // Nothing kept: a checkpointed region.
  TableRows forward_nothing_kept() const {
    if (run_.model.experts) return experts("LE", Part::NothingKept, "ME");
    if (!adapted_) return finished(region(attention(book_.rows("LE"), Part::NothingKept)));
    auto rows = with_macro(with_macro(book_.rows("LG"), "GF", fp32_adapters_ ? "ZE" : "GN"), "NZ", "NE");
    const std::map<std::string, std::string> frees = {
        {"sdpa", "cw lse seed off"}, {"silu", "^ gt.y"}, {"mul", "s u.y"}, {"residual 2", "d.y h1 ^"}};
    for (auto& row : rows) {
      if (frees.count(row.step)) row.frees = frees.at(row.step);
      if (row.step == "o_proj") row.allocates += "{fr=o q.r k.r v.y a.y}";
      if (row.step == "down") row.allocates += "{fr=p b.y}";
    }
    return finished(region(quantized(rows)));
  }

  // Run again inside the backward of a checkpointed layer.
  TableRows recompute() const {
    if (run_.workload.recompute.impl == RecomputeImpl::Reentrant) return forward(false);
    if (run_.model.experts) return experts("LF", Part::Kept, "MR");
    const auto rows = forward(false);
    if (adapted_ && fp32_adapters_) {
      return append(rows_until(rows, "mul"),
                    {{"down", "d.y0=2NH d.xc=4NF d.la=4Nr d.lb=4NH", "d.lb d.y0 h1", "down_proj( d.base d.dropout d.lora_a d.lora_b("}});
    }
    // zero/linear.py saves its tensors after its matmul: down runs, then its output and h1 are dropped.
    if (zero3_) {
      auto stop = rows_until(rows, "down");
      stop.back().modules = "down_proj(";
      stop.back().frees = "d h1";
      return stop;
    }
    if (adapted_) return append(rows_until(rows, "mul"), book_.rows(run_.workload.finetune == Finetune::Qlora ? "QT" : "GT"));
    return append(rows_until(rows, "mul"), {{"stop", "", "h1", "down_proj("}});
  }

  TableRows top_backward(bool first) const {
    auto rows = finished(book_.rows("VT"));
    for (auto& row : rows) {
      if (first && row.step == "rope") row.frees = "cos sin";
    }
    return rows;
  }

  // The lowest trainable layer above frozen ones.
  TableRows lowest_forward() const {
    auto rows = forward(false);
    for (auto& row : rows) {
      if (row.step == "input norm") row = with_macro({row}, "NF", "NG").front();
    }
    return rows;
  }
  TableRows lowest_backward() const {
    auto rows = finished(book_.rows(zero3_ ? "LV" : "LW"));
    for (auto& row : rows) {
      if (row.step == "rotary q") row.allocates += "{sin=sin cos=cos}";
    }
    return rows;
  }

  TableRows backward(bool checkpointed, bool first) const {
    auto rows = layer_backward(checkpointed, first);
    if (!first) return rows;
    // The rotary tables are used last by the query of the first layer; a checkpointed region holds them and the
    // position ids as its arguments until its backward is done.
    for (auto& row : rows) {
      if (!checkpointed && row.step == "rotary q") row.allocates += "{sin=sin cos=cos}";
      if (row.step == "rope") row.frees = "cos sin";  // Liger's rope saves both
      const auto held = row.allocates.find("{xin=x}");
      // Made to take a gradient, the embedding's output is a leaf that lives as long as the graph.
      const std::string x = adapted_ && !zero3_ ? "}" : " x}";
      if (held != std::string::npos) {
        row.allocates.replace(held, 7, (passes_positions_first(run_.model) ? "{xin=<mask> pos sin cos" : "{xin=<mask> sin cos pos") + x);
      }
    }
    return rows;
  }

 private:
  // A reentrant region runs under no_grad.
  TableRows region(TableRows rows) const {
    return run_.workload.recompute.impl == RecomputeImpl::Reentrant ? without_lse(std::move(rows)) : rows;
  }

  // sdpa returns its row sums only where autograd is on.
  static TableRows without_lse(TableRows rows) {
    for (auto& row : rows) {
      if (row.step != "sdpa") continue;
      const auto made = row.allocates.find(" lse=4Nh"), freed = row.frees.find(" lse");
      if (made == std::string::npos) continue;
      row.allocates.erase(made, 8);
      row.frees.erase(freed, 4);
    }
    return rows;
  }

  // enable_input_require_grads, which checkpointing asks for, makes the frozen embedding's output take a gradient.
  bool input_takes_gradient() const { return run_.workload.recompute.any(); }

  // bitsandbytes' 4-bit linears in place of the frozen ones.
  TableRows quantized(TableRows rows) const {
    if (run_.workload.finetune != Finetune::Qlora) return rows;
    for (const auto* kind : {"F", "B", "A", "I", "N", "C", "R", "E"}) {
      rows = with_macro(std::move(rows), std::string("G") + kind, std::string("Q") + kind);
    }
    return rows;
  }

  TableRows layer_backward(bool checkpointed, bool first) const {
    const bool reentrant = checkpointed && run_.workload.recompute.impl == RecomputeImpl::Reentrant;
    if (adapted_) {
      if (fp32_adapters_) return finished(book_.rows("LZ"));
      const char* name = reentrant ? "LX" : checkpointed ? "LK" : first && !input_takes_gradient() ? "LI" : "LH";
      return finished(quantized(book_.rows(name)));
    }
    if (full_precision(run_)) return finished(book_.rows("FB"));
    if (liger_layers(run_)) return finished(book_.rows("VB"));
    const char* name = reentrant ? (zero3_ ? "R3" : "LR") : checkpointed ? (zero3_ ? "LN" : "LC") : zero3_ ? "L3" : "LB";
    if (run_.model.experts) {
      const bool inside = checkpointed && !reentrant;
      const auto attended = attention(book_.rows(name), inside ? Part::CheckpointedBackward : Part::Backward);
      return finished(append(book_.rows(inside ? "MB" : "MW"), rows_from(attended, "o_proj")));
    }
    return finished(attention(book_.rows(name), checkpointed && !reentrant ? Part::CheckpointedBackward : Part::Backward));
  }

  enum class Part { Kept, NothingKept, Backward, CheckpointedBackward };
  // Attention and norms of the dense layer, then the sparse feed-forward.
  TableRows experts(const char* layer, Part part, const char* feed_forward) const {
    return finished(append(rows_until(attention(book_.rows(layer), part), "post norm"), book_.rows(feed_forward)));
  }

  // The attention of the run in place of sdpa's rows.
  TableRows attention(TableRows rows, Part part) const {
    const bool masked = run_.workload.attention_mask && run_.workload.attention == Attention::Sdpa;
    if ((run_.workload.attention != Attention::Eager && !masked) || adapted_) return rows;
    const auto patch = [&](std::initializer_list<const char*> texts) {
      TableRows out = std::move(rows);
      for (const auto* text : texts) out = replaced(std::move(out), parse_rows(text));
      return out;
    };
    using namespace tables;
    if (masked) {
      switch (part) {
        case Part::Kept: return patch({KF.rows});
        case Part::NothingKept: return patch({KE.rows});
        case Part::Backward: return zero3_ ? patch({KB.rows, K3.rows}) : patch({KB.rows});
        case Part::CheckpointedBackward: return zero3_ ? patch({KB.rows, K3.rows, KN.rows}) : patch({KB.rows, KC.rows});
      }
    }
    switch (part) {
      case Part::Kept: return patch({tables::EF.rows});
      case Part::NothingKept: return patch({tables::EE.rows});
      case Part::Backward: return zero3_ ? patch({tables::EB.rows, tables::EZ.rows}) : patch({tables::EB.rows});
      case Part::CheckpointedBackward:
        return zero3_ ? patch({tables::EB.rows, tables::EZ.rows, tables::EN.rows}) : patch({tables::EB.rows, tables::EC.rows});
    }
    return rows;
  }

  TableRows finished(TableRows rows) const {
    if (run_.model.qkv_bias && !adapted_) rows = with_qkv_bias(std::move(rows), zero3_);
    for (auto& row : rows) {
      if (run_.model.qkv_bias && adapted_ && row.step == "q_proj") row = with_macro(with_macro({row}, "GF", "GL"), "GN", "GM").front();
    }
    return run_.model.qk_norm ? rows : without_qk_norm(std::move(rows), adapted_);
  }

  const TableBook& book_;
  const Run& run_;
  bool zero3_, adapted_, fp32_adapters_;
};

// BO:scale_if_loss multiplies by the loss scale in every ZeRO optimizer and in fp16.
bool loss_scaled(const Run& run) {
  switch (engine_of(run)) {
    case EngineKind::Zero0: return run.ds.precision == Precision::Fp16;
    case EngineKind::Bf16Optimizer: return false;
    case EngineKind::Zero12:
    case EngineKind::Zero3: return true;
  }
  return true;
}

}  // namespace

Script make_script(const Run& run) {
  Compiler c(run);
  const LayerTables tables(run);
  const TableBook& book = table_book();
  const bool zero3 = run.ds.zero.stage == 3;
  const bool adapted = run.workload.finetune == Finetune::Lora || run.workload.finetune == Finetune::Qlora;
  const bool tied = run.model.tied_embeddings;
  const bool reentrant = run.workload.recompute.impl == RecomputeImpl::Reentrant;
  Script& s = c.script();

  const Bound xprev = {{"xprev", {"x"}}};
  for (const bool first : {false, true}) {
    const Bound drop_input = first ? Bound{} : xprev;
    auto& plain = s.layers[first][0];
    plain.forward = c.layer(tables.forward(first), Pass::Forward, first, drop_input);
    const Bound masks = holds_mask(run) ? Bound{{"mask", {"mask"}}} : Bound{};
    plain.backward = c.layer(tables.backward(false, first), Pass::Backward, first, masks);
    auto& checkpointed = s.layers[first][1];
    checkpointed.forward = c.layer(tables.forward_nothing_kept(), Pass::Forward, first, {});
    s.eval_layer[first] = c.layer(tables.evaluation(), Pass::Forward, first, drop_input);
    s.has_top = liger_layers(run) && run.workload.kernels.fused_linear_cross_entropy;
    if (s.has_top) s.top[first] = {plain.forward, c.layer(tables.top_backward(first), Pass::Backward, first, {})};
    if (run.workload.finetune == Finetune::Freeze) {
      s.frozen[first].forward = s.eval_layer[first];
      s.lowest[first].forward = c.layer(tables.lowest_forward(), Pass::Forward, first, drop_input);
      s.lowest[first].backward = c.layer(tables.lowest_backward(), Pass::Backward, first, {});
    }
    const auto again = c.layer(tables.recompute(), Pass::Forward, first, {});
    checkpointed.backward = c.layer(tables.backward(true, first), Pass::Backward, first, masks, &again);
    if (reentrant) {
      auto first_again = again;
      for (auto& i : first_again) i.recompute = true;
      checkpointed.backward.insert(checkpointed.backward.begin(), first_again.begin(), first_again.end());
    }
  }

  const bool fp32 = full_precision(run);
  const bool cast_in_forward = zero3 || !run.versions.switches.fp32_buffers_kept;  // of inv_freq
  auto begin = book.rows(fp32 ? "PS" : cast_in_forward ? "P3" : "PF");
  if (run.ds.train_micro_batch_size_per_gpu > 1) begin = replaced(begin, book.rows("PB"));
  const bool eager = run.workload.attention == Attention::Eager;
  if (eager) {
    const auto rope = std::find_if(begin.begin(), begin.end(), [](const TableRow& r) { return r.step == "rope"; });
    const auto& mask = book.rows("PE");
    begin.insert(rope, mask.begin(), mask.end());
  } else if (holds_mask(run)) {
    const auto rope = std::find_if(begin.begin(), begin.end(), [](const TableRow& r) { return r.step == "rope"; });
    const TableRows rest(rope, begin.end());
    begin = append(append(rows_until(begin, "positions"), book.rows("PK")), rest);
  }
  s.forward_begin = c.outer(begin, Pass::Forward, {});
  const bool boundaries = run.workload.recompute.at(0);
  // The last layer's output goes with the final norm's cast, the embedding with the model's forward, unless
  // checkpointing holds them as boundaries.
  std::vector<std::string> arguments;
  if (!boundaries) {
    arguments = passes_positions_first(run.model) ? std::vector<std::string>{"pos", "emb"} : std::vector<std::string>{"emb", "pos"};
    if (holds_mask(run)) arguments.insert(arguments.begin(), "mask");
  }
  const Bound ends = {{"args", arguments}, {"xlast", {"xlast"}}};
  const bool fused = run.workload.kernels.fused_linear_cross_entropy;
  const bool rows_many = run.ds.train_micro_batch_size_per_gpu > 1;
  auto head = book.rows(fp32 ? (rows_many ? "FM" : "FH") : fused ? "HL" : rows_many ? "HM" : "HF");
  const bool liger = liger_layers(run);
  if (liger) head = fused ? book.rows("VL") : replaced(head, book.rows("VH"));
  const bool freeze = run.workload.finetune == Finetune::Freeze;
  const bool frozen_head = adapted || (freeze && tied);
  if (adapted) head = with_macro(head, "NF", "NZ");
  for (auto& row : head) {
    if (!frozen_head) break;
    // A plain linear with a frozen weight does not keep its input.
    if (!zero3 && !fused && row.step == "return") row.frees.insert(0, "f.y ");
    // Liger makes the head's gradient only where the head trains.
    if (const auto at = row.allocates.find("gw=2VH "); at != std::string::npos) row.allocates.erase(at, 7);
  }
  s.forward_end = c.outer(head, Pass::Forward, ends);
  const std::vector<std::string> all_arguments = passes_positions_first(run.model) ? std::vector<std::string>{"pos", "emb"} : std::vector<std::string>{"emb", "pos"};
  s.eval_end = c.outer(book.rows("VE"), Pass::Forward, {{"args", all_arguments}, {"xlast", {"xlast"}}});
  auto loss = book.rows(fp32 ? "FL" : frozen_head ? (zero3 ? "Z3" : "HZ") : zero3 ? "H3" : "HB");
  // The head's gradient of a Python function is added to in place, MmBackward's is not.
  const bool in_place = zero3 || run.workload.kernels.fused_linear_cross_entropy;
  auto embedding = book.rows(fp32 ? (tied ? "FT" : "FU") : !tied ? "EU" : in_place ? "E3" : "HE");
  const bool kept_losses = run.versions.switches.engine_keeps_losses && loss_scaled(run);
  const bool divided = run.ds.gradient_accumulation_steps > 1;
  if (!loss_scaled(run)) loss = replaced(loss, book.rows("UB"));
  if (kept_losses) loss = replaced(loss, book.rows(divided ? "OB" : "OA"));
  if (kept_losses && divided) s.backward_prologue = c.outer(book.rows("OP"), Pass::Backward, {});
  const std::string head_gradient = fused ? "gw" : "dWh";
  if (fused) loss = replaced(loss, book.rows(liger ? "VK" : "HK"));
  else if (liger) loss = replaced(loss, book.rows("VX"));
  if (adapted) loss = with_macro(loss, "NB", "N0");
  // A tied head's gradient waits inside autograd for the embedding's. An untied one's hook follows MmBackward at once;
  // from an autograd function of Python's (ZeRO-3's linear, Liger's loss) it runs in the norm's backward.
  Bound handed = {{"HEAD", {}}, {"UNTIED", {}}};
  if (!tied && !frozen_head) handed[zero3 || fused ? "HEAD" : "UNTIED"] = {head_gradient};
  s.backward_begin = c.outer(loss, Pass::Backward, handed);
  if (run.tokens() > 3072) embedding = with_sorted_embedding(embedding);
  // A frozen embedding: with checkpointing its output was made to require a gradient (enable_input_require_grads),
  // so that its hook runs at the end of backward.
  if (adapted) {
    embedding.clear();
    if (run.workload.recompute.any() && zero3) embedding.push_back({"embedding", "", "dout", "embed_tokens("});
  }
  if (freeze) {
    embedding.clear();
    if (run.workload.recompute.any()) embedding.push_back({"embedding", "", "dout", ""});
  }
  embedding = append(embedding, book.rows(kept_losses ? "OE" : "BE"));
  s.backward_end = c.outer(embedding, Pass::Backward, {{"head", {head_gradient}}});
  // CheckpointFunction holds its arguments until the graph goes with the loss; so do a leaf and its gradient.
  std::vector<std::string> arguments_held;
  if (boundaries && reentrant) arguments_held = {"sin", "cos", "pos"};
  else if (boundaries && adapted && !zero3) arguments_held = {"dout", "emb"};
  s.backward_return = c.outer(book.rows(kept_losses ? (divided ? "OR" : "OQ") : loss_scaled(run) ? "BR" : "UR"), Pass::Backward, {{"loss", {fused ? "loss" : "l1"}}, {"held", arguments_held}});
  return c.finish();
}

}  // namespace zplan
