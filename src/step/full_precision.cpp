#include "step/full_precision.h"

#include <cctype>
#include <string>
#include <utility>

#include "spec/run.h"
#include "step/row_text.h"

namespace zplan {
namespace {

// `=2NH` is a tensor of the model's dtype.
void widen(std::string& allocates) {
  for (std::size_t at = 0; (at = allocates.find("=2", at)) != std::string::npos; at += 2) {
    if (at + 2 < allocates.size() && std::isalpha(static_cast<unsigned char>(allocates[at + 2])) != 0) allocates[at + 1] = '4';
  }
}

// What a norm reads, by the prefix of its tensors; a block that a checkpoint's frame holds is freed with the frame.
std::string norm_input(const std::string& cell, std::size_t macro) {
  const std::string prefix = cell.substr(macro + 3, cell.find(']', macro) - macro - 3);
  if (prefix == "a") return "x";
  if (prefix == "b") return "h1";
  if (prefix == "f") return "xlast";
  return prefix.substr(0, 1);  // qn, kn
}

// The macro `from[...]` as `to[...]`, told what the norm read. True if it was there.
bool norm_backward(TableRow& row, const std::string& from, const std::string& to, bool frame_holds_input = false) {
  const auto at = row.allocates.find(from + "[");
  if (at == std::string::npos) return false;
  row.allocates.replace(at, 2, to);
  if (frame_holds_input || row.allocates.find("xin=", at) != std::string::npos) return true;
  const std::string given = "x=" + norm_input(row.allocates, at);
  const auto brace = row.allocates.find('{', at);
  if (brace == std::string::npos) row.allocates.insert(row.allocates.find(')', at) + 1, "{" + given + "}");
  else row.allocates.insert(brace + 1, given + " ");
  return true;
}

// modeling_qwen3_moe.py: the router's softmax and the weights need no casts, and the grouped product falls back to one
// matmul an expert, without workspaces (aten/src/ATen/native/GroupedMMUtils.h).
void widen_experts(TableRow& row) {
  if (row.step == "to bf16" || row.step == "to fp32") row.allocates.clear();
  for (const char* cast : {"l32=4NE ", " tw=2Nk", " ga=60E gb=gb"}) replace_all(row.allocates, cast, "");
  replace_all(row.allocates, "=4NkM", "=8NkM");
  replace_all(row.allocates, "=4EHM", "=8EHM");
  replace_all(row.allocates, "(2N", "(4N");
  if (row.step == "to bf16") rename_freed(row.frees, "tv"), rename_freed(row.frees, "dl");
  if (row.step == "to fp32") rename_freed(row.frees, "wt.g");
  if (row.step == "top k") rename_freed(row.frees, "tv");
  for (const auto& [from, to] : {std::pair{"l32", ""}, {"ga", ""}, {"gb", ""}, {"tw", "tv"}, {"dlg", "dl"}, {"dt", "wt.g"}}) {
    rename_freed(row.frees, from, to);
  }
}

TableRow with_macro_in(TableRow row, const char* from, const char* to) { return with_macro({std::move(row)}, from, to).front(); }

}  // namespace

bool full_precision(const Run& run) {
  return run.ds.precision == Precision::Fp32 && !run.ds.torch_autocast && run.workload.finetune == Finetune::Full;
}

TableRows in_full_precision(TableRows rows, const Run& run) {
  const bool zero3 = run.ds.zero.stage == 3;
  bool reentrant = false, nothing_kept = false;
  for (const auto& row : rows) {
    reentrant = reentrant || row.step == "first sum";
    nothing_kept = nothing_kept || row.allocates.find("NE[") != std::string::npos;
  }
  for (auto& row : rows) {
    row = with_macro_in(with_macro_in(std::move(row), "RF", "RS"), "RB", "RT");
    row = with_macro_in(with_macro_in(std::move(row), "NF", "NS"), "NE", "NI");
    if (!nothing_kept) {  // a norm keeps its input
      if (row.step == "q_norm" || row.step == "k_norm") rename_freed(row.frees, row.step.substr(0, 1)), rename_freed(row.frees, "^");
      if (row.step == "residual 2" || row.step == "stop" || row.step == "down") rename_freed(row.frees, "h1");
      if (row.step == "residual 2") rename_freed(row.frees, "<xprev>");
    }
    // DeepSpeed's hooks stand between a module of ZeRO-3 and its input: what the norm's two uses of it give is summed
    // first. Otherwise each is added to the running gradient as it comes.
    const bool of_heads = row.step == "q_norm" || row.step == "k_norm";
    const bool new_sum = reentrant && !zero3 && row.step == "post norm";
    const bool in_place = !zero3 && !of_heads && !new_sum;
    const bool found = norm_backward(row, "NB", new_sum ? "NN" : in_place ? "NU" : "NT", reentrant && row.step == "input norm") ||
                       norm_backward(row, "NQ", in_place ? "NO" : "NJ");
    if (found && in_place) {
      for (const char* dx : {"a.dx", "b.dx"}) rename_freed(row.frees, dx);
    }
    if (reentrant && !zero3 && row.step == "first sum") row = {row.step, "", "dh:=b.dh", row.modules};
    if (run.model.experts) widen_experts(row);
    widen(row.allocates);
  }
  return rows;
}

TableRows ends_in_full_precision(TableRows rows) {
  for (auto& row : rows) {
    if (row.allocates.find("NF[f]") != std::string::npos) rename_freed(row.frees, "<xlast>"), rename_freed(row.frees, "^");
    row = with_macro_in(with_macro_in(std::move(row), "NF", "NS"), "NE", "NI");
    norm_backward(row, "NB", "NT");
    if (row.step == "float" || row.step == "to bf16") row = {row.step, "", "", row.modules};
    rename_freed(row.frees, "lf");
    rename_freed(row.frees, "gl", "g2");
    widen(row.allocates);
  }
  return rows;
}

}  // namespace zplan
