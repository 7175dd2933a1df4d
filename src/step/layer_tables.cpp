#include "step/layer_tables.h"

#include <array>
#include <map>
#include <string>
#include <utility>

#include "step/full_precision.h"
#include "step/row_text.h"
#include "step/full_precision.h"
#include "step/row_text.h"
#include "step/tables/all.h"

namespace zplan {
namespace {

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

char lower(char c) { return static_cast<char>(c - 'A' + 'a'); }

// The tables of adapted linears with dropout have their names with a small first letter.
TableRows with_dropout(TableRows rows) {
  for (const std::string name : {"GF", "GL", "GN", "GM", "GB", "GA", "GI", "GC", "GR", "GE", "QF", "QL", "QN", "QM", "QB", "QA", "QI", "QC", "QR",
                                 "QE", "ZE", "ZF", "ZB", "ZA", "ZC", "ZD", "ZG", "ZI", "ZT", "ZU", "ZV", "ZW", "ZX", "ZL", "Q1", "Q2", "Q3", "Q4", "Q5"}) {
    rows = with_macro(std::move(rows), name, std::string(1, lower(name[0])) + name[1]);
  }
  return rows;
}

// o_proj alone holds the output of eager attention, which goes with its saved input; the fused kernels hold theirs.
void give_back_output(TableRow& o_proj) {
  const auto adapter = o_proj.allocates.find("out=do}");
  if (adapter != std::string::npos) {
    o_proj.allocates.insert(adapter, "sav=o ");
    return;
  }
  const std::string incoming = "dout ";  // above frozen layers o_proj is the last to use it
  o_proj.frees.insert(o_proj.frees.rfind(incoming, 0) == 0 ? incoming.size() : 0, "o ");
}

// A mixture of experts that is no leaf module: AccumulateGrad follows the node that made the gradient. The router's linear
// is the stage's own, torch's or zero/linear.py's.
TableRows with_hooks_at_once(TableRows rows, bool zero3) {
  for (auto& row : rows) {
    if (row.step == "down 2") row.frees += " hook:dW2";
    if (row.step == "gate_up 2") row.frees += " hook:dW1";
    if (row.step != "router") continue;
    const std::string late = "dyr hook:dW1 hook:dW2 hook:dWr";
    row.frees.replace(row.frees.find(late), late.size(), zero3 ? "hook:dWr ^ dyr" : "dyr hook:dWr");
    if (!zero3) row.allocates = "dWr=2EH dyr=2NH";
  }
  return rows;
}

// Experts and router that do not train, under adapters of the attention (PEFT adapts linears; the experts are none): no
// gradients of theirs, and what only those would ask for goes with the function that made it.
TableRows frozen_experts(const TableRows& rows) {
  TableRows out;
  for (TableRow row : rows) {
    if (row.allocates.rfind("dW", 0) == 0) continue;  // of one stack
    if (row.step == "down" && row.frees.find("mu") == std::string::npos) row.frees += " mu";
    if (row.step == "down 2") erase_last(row.frees, " mu");
    if (row.step == "gate_up 2") erase_last(row.frees, " xg");
    if (row.step == "router" && row.allocates.find("dWr") != std::string::npos) row.allocates = "dyr=2NH", row.frees = "dlg dyr";
    const auto locals = row.frees.find("sv ");  // the function returns
    if (locals != std::string::npos && row.frees.find(" xg ") == std::string::npos) {
      row.frees.insert(locals + 2, " xg");
      row.frees += " b.y";
    }
    out.push_back(std::move(row));
  }
  return out;
}

// The plainest training there is, whatever its precision and stage.
bool whole_dense(const Run& run) {
  return run.workload.finetune == Finetune::Full && !run.workload.recompute.any() &&
         run.workload.attention == Attention::Sdpa && !run.workload.kernels.any() && !run.model.experts;
}

}  // namespace

bool autocast_layers(const Run& run) {
  return run.ds.torch_autocast && whole_dense(run) && (run.ds.zero.stage < 3 || !torch_linears(run)) &&
         !masked_sdpa(run) && run.model.qk_norm && !run.model.qkv_bias;
}

bool torch_linears(const Run& run) {
  const bool patched = run.workload.zero_init || run.versions.switches.mem_efficient_linear_module;
  return run.ds.zero.stage == 3 && !(run.ds.zero.memory_efficient_linear && patched);
}

bool torch_linear_layers(const Run& run) {
  return torch_linears(run) && whole_dense(run) && run.ds.precision != Precision::Fp32 && !masked_sdpa(run) &&
         !run.model.qkv_bias;
}

bool holds_mask(const Run& run) { return run.workload.attention == Attention::Eager || masked_sdpa(run); }

bool passes_positions_first(const Model& model) { return model.model_type != "qwen2" && model.model_type != "qwen3"; }

bool layers_take_positions_first(const Model& model) { return model.model_type == "mistral" || model.model_type == "qwen3_moe"; }

LayerTables::LayerTables(const Run& run)
    : book_(table_book()), run_(run), zero3_(run.ds.zero.stage == 3),
      adapted_(run.workload.adapted()),
      fp32_adapters_(adapters_stay_fp32(run.workload, run.ds, run.versions.switches)),
      dropout_(adapted_ && run.workload.lora_dropout > 0) {}

TableRows LayerTables::forward(bool first) const {
  if (adapted_) return adapted_forward(first, "MF");
  if (run_.model.experts) return experts("LF", Part::Kept, "MF");
  if (autocast_layers(run_)) return book_.rows(zero3_ ? "AX" : "AF");
  return finished(with_liger(attention(book_.rows("LF"), Part::Kept), run_, LigerPart::Kept, first));
}

TableRows LayerTables::adapted_forward(bool first, const char* experts_rows) const {
  auto rows = attention(adapted_layer(experts_rows), Part::Kept);
  if (fp32_adapters_) rows = with_macro(rows, "GF", "ZF");
  // zero/linear.py's do, bitsandbytes' keep the state of their weight alone.
  const bool linears_keep_input = zero3_ && (run_.workload.finetune != Finetune::Qlora || fp32_adapters_);
  // Neither the frozen embedding's output nor the norm's weight takes a gradient.
  for (auto& row : rows) {
    if (!first || input_takes_gradient()) continue;
    if (row.step == "input norm") row = with_macro({row}, "NZ", "NE").front();
    // The adapters keep copies of its output, the linears nothing.
    if (linears_keep_input && (fp32_adapters_ || dropout_) && row.step == "o_proj") row.frees += row.frees.empty() ? "^ a.y" : " a.y";
  }
  // Under dropout the adapters keep the dropped copy.
  for (auto& row : rows) {
    if (!dropout_ || linears_keep_input) break;
    if (row.step == "o_proj") {
      if (run_.workload.attention == Attention::Eager) row.allocates += "{fr=o}";  // the fused kernels keep theirs
      row.frees += row.frees.empty() ? "^ a.y" : " a.y";
    }
    if (row.step == "down" && !run_.model.experts) row.allocates += "{fr=p b.y}";
  }
  rows = finished(with_liger(quantized(rows), run_, LigerPart::Kept, first));
  if (!first || input_takes_gradient()) return rows;
  for (auto& row : rows) {
    if (row.step != "q_proj" && row.step != "k_proj" && row.step != "v_proj") continue;
    for (const auto& [kept, lowest] : {std::pair{"gF", "gY"}, {"gL", "gZ"}, {"qF", "qY"}, {"qL", "qZ"}, {"zF", "zY"}}) {
      row = with_macro({row}, kept, lowest).front();
    }
  }
  return rows;
}

TableRows LayerTables::adapted_layer(const char* experts_rows) const {
  const auto& dense = book_.rows("LG");
  if (!run_.model.experts) return dense;
  return append(rows_until(dense, "post norm"), frozen_experts(book_.rows(experts_rows)));
}

TableRows LayerTables::forward_nothing_kept() const {
  if (run_.model.experts && !adapted_) return region(experts("LE", Part::NothingKept, "ME"));
  if (!adapted_) return finished(with_liger(region(attention(book_.rows("LE"), Part::NothingKept)), run_, LigerPart::NothingKept, false));
  auto rows = with_macro(with_macro(adapted_layer("ME"), "GF", fp32_adapters_ ? "ZE" : "GN"), "NZ", "NE");
  const std::map<std::string, std::string> frees = {
      {"sdpa", "cw lse seed off"}, {"silu", "^ gt.y"}, {"mul", "s u.y"}, {"residual 2", "d.y h1 ^"}};
  for (auto& row : rows) {
    const bool sparse = run_.model.experts && row.step != "sdpa";
    if (frees.count(row.step) && !sparse) row.frees = frees.at(row.step);
    if (row.step == "o_proj") row.allocates += "{fr=o q.r k.r v.y a.y}";
    if (row.step == "down" && !sparse) row.allocates += "{fr=p b.y}";
  }
  return finished(with_liger(region(quantized(attention(rows, Part::NothingKept))), run_, LigerPart::NothingKept, false));
}

TableRows LayerTables::recompute() const {
  if (run_.workload.recompute.impl == RecomputeImpl::Reentrant) return forward(false);
  if (run_.model.experts) return adapted_ ? adapted_forward(false, "MR") : experts("LF", Part::Kept, "MR");
  const auto rows = forward(false);
  const std::string h1 = layer_kernels(run_).rms_norm || full_precision(run_) ? "" : " h1";  // the norm keeps it
  if (adapted_) {
    const bool quantized = run_.workload.finetune == Finetune::Qlora;
    std::string end = zero3_ ? (fp32_adapters_ ? "Z4" : quantized ? "Q8" : "Z2") : quantized ? "QT" : "GT";
    if (dropout_) end[0] = lower(end[0]);
    auto stop = book_.rows(end);
    if (h1.empty()) erase_last(stop.back().frees, "h1");
    return append(rows_until(rows, "mul"), stop);
  }
  // zero/linear.py saves its tensors after its matmul: down runs, then its output and h1 are dropped.
  if (zero3_) {
    auto stop = rows_until(rows, "down");
    stop.back().modules = "down_proj(";
    stop.back().frees = "d" + h1;
    return stop;
  }
  return append(rows_until(rows, "mul"), {{"stop", "", h1, "down_proj("}});
}

TableRows LayerTables::lowest_forward() const {
  auto rows = forward(false);
  for (auto& row : rows) {
    if (row.step == "input norm") row = with_macro({row}, "NF", "NG").front();
  }
  return rows;
}

TableRows LayerTables::over_experts(TableRows sparse, const TableRows& layer) const {
  if (!zero3_ || !run_.versions.switches.default_leaf_modules) sparse = with_hooks_at_once(std::move(sparse), zero3_);
  auto rest = rows_from(layer, "post norm");
  rest.erase(rest.begin());
  return append(std::move(sparse), rest);
}

TableRows LayerTables::over_frozen_experts(const TableRows& layer, Part part) const {
  if (!run_.model.experts) return layer;
  auto sparse = frozen_experts(book_.rows(part == Part::CheckpointedBackward ? "MB" : "MW"));
  sparse.pop_back();  // the post norm is the adapted layer's
  auto rest = rows_from(layer, "post norm");
  const std::string arguments = "[b](N,H)";
  rest.front().allocates.insert(rest.front().allocates.find(arguments) + arguments.size(), "{dy=b.dy.g}");
  return append(std::move(sparse), rest);
}

TableRows LayerTables::lowest_backward() const {
  auto rows = attention(book_.rows(zero3_ ? "LV" : "LW"), Part::Backward);
  if (run_.model.experts) rows = over_experts(book_.rows("MW"), rows);
  rows = finished(std::move(rows));
  for (auto& row : rows) {
    if (row.step == "rotary q") row.allocates += "{sin=sin cos=cos}";
  }
  return rows;
}

bool LayerTables::has_top() const { return layer_kernels(run_).rms_norm; }

LigerPart LayerTables::backward_part(bool checkpointed) const {
  if (!checkpointed) return LigerPart::Backward;
  return run_.workload.recompute.impl == RecomputeImpl::Reentrant ? LigerPart::Reentrant : LigerPart::InRegion;
}

TableRows LayerTables::backward(bool checkpointed, bool first, bool top) const {
  const auto part = backward_part(checkpointed);
  auto rows = layer_backward(checkpointed, first);
  if (top && part != LigerPart::Reentrant) rows = with_liger_top(std::move(rows), run_);
  if (!first) return rows;
  // The rotary tables are used last by the query of the first layer; a checkpointed region holds them and the
  // position ids as its arguments until its backward is done.
  for (auto& row : rows) {
    if (!checkpointed && row.step == "rotary q") {
      if (layer_kernels(run_).rope) row.frees += " cos sin";  // Liger's saves both
      else row.allocates += "{sin=sin cos=cos}";
    }
    // Made to take a gradient, the embedding's output is a leaf that lives as long as the graph, and so does its gradient.
    if (adapted_ && part == LigerPart::Reentrant && row.step == "end") row.frees = "out dout dout:=dh";
    const auto held = row.allocates.find("{xin=x}");
    const std::string x = adapted_ && (!zero3_ || !run_.workload.zero_init) ? "}" : " x}";
    if (held != std::string::npos) {
      row.allocates.replace(held, 7, (layers_take_positions_first(run_.model) ? "{xin=<mask> pos sin cos" : "{xin=<mask> sin cos pos") + x);
    }
  }
  return rows;
}

TableRows LayerTables::region(TableRows rows) const {
  return run_.workload.recompute.impl == RecomputeImpl::Reentrant ? without_grad(std::move(rows)) : rows;
}

TableRows LayerTables::without_grad(TableRows rows) {
  for (auto& row : rows) {
    if (row.allocates.find(" lse=4Nh") != std::string::npos) erase_last(row.allocates, " lse=4Nh"), erase_last(row.frees, " lse");
    if (row.step == "renorm") erase_last(row.allocates, " tc=4Nk"), erase_last(row.frees, "tc ");
  }
  return rows;
}

TableRows LayerTables::quantized(TableRows rows) const {
  if (run_.workload.finetune != Finetune::Qlora) return rows;
  for (const auto* kind : {"F", "B", "A", "I", "N", "C", "R", "E"}) {
    rows = with_macro(std::move(rows), std::string("G") + kind, std::string("Q") + kind);
  }
  return rows;
}

TableRows LayerTables::adapter_width(TableRows rows) const {
  if (fp32_adapters_) return rows;
  const std::pair<const char*, const char*> same_width[] = {{"ZH", "ZS"}, {"ZB", "ZT"}, {"ZA", "ZU"}, {"ZC", "ZV"},
                                                            {"ZD", "ZW"}, {"ZG", "ZX"}, {"ZJ", "ZK"}, {"ZI", "ZL"}};
  for (const auto& [fp32, same] : same_width) rows = with_macro(std::move(rows), fp32, same);
  if (run_.workload.finetune != Finetune::Qlora) return rows;
  const std::pair<const char*, const char*> quantized[] = {{"ZT", "Q1"}, {"ZU", "Q2"}, {"ZV", "Q3"}, {"ZW", "Q4"}, {"ZX", "Q5"}};
  for (const auto& [plain, four_bit] : quantized) rows = with_macro(std::move(rows), plain, four_bit);
  return rows;
}

TableRows LayerTables::layer_backward(bool checkpointed, bool first) const {
  const bool reentrant = checkpointed && run_.workload.recompute.impl == RecomputeImpl::Reentrant;
  const auto part = checkpointed && !reentrant ? Part::CheckpointedBackward : Part::Backward;
  if (adapted_) {
    const bool lowest = first && !input_takes_gradient();
    if (zero3_) {
      const char* name = reentrant ? "LY" : checkpointed ? "LZ" : lowest ? "LO" : "LM";
      const auto rows = over_frozen_experts(attention(book_.rows(name), part), part);
      return finished(with_liger(adapter_width(rows), run_, backward_part(checkpointed), first));
    }
    const char* name = reentrant ? "LX" : checkpointed ? "LK" : lowest ? "LI" : "LH";
    const auto rows = over_frozen_experts(attention(book_.rows(name), part), part);
    return finished(with_liger(quantized(rows), run_, backward_part(checkpointed), first));
  }
  if (autocast_layers(run_)) return book_.rows(zero3_ ? "AY" : "AB");
  if (torch_linear_layers(run_)) return finished(book_.rows("LT"));
  const char* name = reentrant ? (zero3_ ? "R3" : "LR") : checkpointed ? (zero3_ ? "LN" : "LC") : zero3_ ? "L3" : "LB";
  const auto attended = attention(book_.rows(name), part);
  if (run_.model.experts) {
    auto sparse = book_.rows(part == Part::CheckpointedBackward ? "MB" : "MW");
    if (reentrant) sparse.back().frees = "";  // its gradient waits for the first sum
    return finished(over_experts(std::move(sparse), attended));
  }
  return finished(with_liger(attended, run_, backward_part(checkpointed), first));
}

TableRows LayerTables::experts(const char* layer, Part part, const char* feed_forward) const {
  auto rows = append(rows_until(book_.rows(layer), "post norm"), book_.rows(feed_forward));
  return finished(attention(std::move(rows), part));
}

TableRows LayerTables::attention_kernel(Part part) const {
  const auto of = [&](const char* kept, const char* nothing_kept, const char* backward, const char* inside) {
    switch (part) {
      case Part::Kept: return kept;
      case Part::NothingKept: return nothing_kept;
      case Part::Backward: return backward;
      case Part::CheckpointedBackward: return inside;
    }
    return kept;
  };
  const bool fp32 = full_precision(run_), eager = run_.workload.attention == Attention::Eager;
  if (masked_sdpa(run_)) return book_.rows(of("KF", "KE", "KB", "KC"));
  if (fp32 && !eager) return book_.rows(several_rows() ? of("XG", "XH", "XI", "XJ") : of("XF", "XE", "XB", "XC"));
  if (!eager) return {};
  auto rows = book_.rows(several_rows() ? of("EG", "EH", "EB", "EC") : of("EF", "EE", "EB", "EC"));
  if (fp32) rows = replaced(std::move(rows), book_.rows(of("YF", "YF", "YB", "YC")));
  if (run_.ds.precision == Precision::Fp16) rows = replaced(std::move(rows), book_.rows(of("EX", "EX", "EY", "EZ")));
  const bool backward = part == Part::Backward || part == Part::CheckpointedBackward;
  return backward && several_rows() ? append(book_.rows("EJ"), rows) : rows;
}

TableRows LayerTables::attention(TableRows rows, Part part) const {
  const bool eager = run_.workload.attention == Attention::Eager;
  const bool products = full_precision(run_) && !eager && !masked_sdpa(run_);  // sdpa's math path
  const auto own = attention_kernel(part);
  if (own.empty()) return rows;
  const bool forward = part == Part::Kept || part == Part::NothingKept;
  const std::string v = adapted_ ? "v.y" : "v";
  TableRows out;
  for (auto& row : rows) {
    if (row.step == "sdpa") {
      out = append(std::move(out), own);
      continue;
    }
    if (row.step == "o_proj" && part == Part::Kept) {
      // Backward has the repeated keys and values, and a copy of the query, in place of those that attention's frame drops.
      if (eager && several_rows()) row.frees = "^ q.r k.r " + v + " q.r:=qc";
      else row.frees = (products ? "^ q.r k.r " : "^ k.r ") + v;
    }
    if (row.step == "o_proj" && !forward && (eager || products)) give_back_output(row);
    if (row.step == "v_proj" && !forward) {
      // The gradient of the repeated values is summed over the heads, and transposed.
      out.push_back({"reshape v", "dvc=2NK", "dv", ""});
      replace_word(row.allocates, "dv", "dvc");
      replace_word(row.frees, "dv", "dvc");
    }
    if (row.step == "residual 2" && part == Part::NothingKept && eager) {
      // The layer holds the attention weights, its unused second result, to its end.
      row.frees.insert(row.frees.find("h1") + 2, full_precision(run_) ? " pr" : " pb");
    }
    out.push_back(std::move(row));
  }
  return out;
}

TableRows LayerTables::finished(TableRows rows) const {
  if (run_.model.qkv_bias && !adapted_) rows = with_qkv_bias(std::move(rows), zero3_);
  for (auto& row : rows) {
    // Where zero/linear.py stands for torch's linear, it adds the bias after its product.
    if (!run_.model.qkv_bias || !adapted_ || row.step != "q_proj") continue;
    if (!zero3_) row = with_macro(with_macro({row}, "GF", "GL"), "GN", "GM").front();
    row = with_macro(with_macro({row}, "QF", "QL"), "QN", "QM").front();
  }
  if (!run_.model.qk_norm) rows = without_qk_norm(std::move(rows), adapted_);
  if (full_precision(run_)) rows = in_full_precision(std::move(rows), run_);
  return dropout_ ? with_dropout(std::move(rows)) : rows;
}

}  // namespace zplan
