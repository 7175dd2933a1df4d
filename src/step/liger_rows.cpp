#include "step/liger_rows.h"

#include <string>
#include <utility>

#include "step/layer_tables.h"
#include "step/row_text.h"
#include "step/tables/all.h"

namespace zplan {
namespace {

// Neither the frozen embedding's output nor the weights of the first norm take a gradient.
bool input_without_gradient(const Run& run, bool first) {
  return first && run.workload.adapted() && !run.workload.recompute.any();
}

// An adapted linear's output is y, the sum of its base and its adapter.
void name_adapted(std::string& cell) {
  for (const std::string name : {"q", "k", "gt", "u", "d"}) replace_word(cell, name, name + ".y");
}

TableRows patched(TableRows rows, const Run& run, const char* name) {
  TableRows patch = table_book().rows(name);
  for (auto& row : patch) {
    if (!run.workload.adapted()) break;
    name_adapted(row.frees);
    const auto bound = row.allocates.find("{x=");
    if (bound == std::string::npos) continue;
    auto given = row.allocates.substr(bound);
    name_adapted(given);
    row.allocates.replace(bound, std::string::npos, given);
  }
  return replaced(std::move(rows), patch);
}

// RMSNorm's rows of the backward.
TableRows norm_backward(TableRows rows, const Run& run, LigerPart part, bool first) {
  const bool zero3 = run.ds.zero.stage == 3;
  if (run.model.qk_norm) rows = patched(std::move(rows), run, run.workload.kernels.rope ? "VQ" : "VP");
  const TableRows before = rows;
  const char* name = part == LigerPart::InRegion    ? (zero3 ? "VD" : "VC")
                     : part == LigerPart::Reentrant ? (zero3 ? "VS" : "VR")
                                                    : (zero3 ? "V3" : "VB");
  rows = patched(std::move(rows), run, name);
  return input_without_gradient(run, first) ? replaced(std::move(rows), rows_from(before, "input norm")) : rows;
}

}  // namespace

Kernels layer_kernels(const Run& run) {
  const auto& w = run.workload;
  const bool known = run.ds.precision != Precision::Fp32 && w.finetune != Finetune::Freeze && !run.model.experts &&
                     !masked_sdpa(run);
  return known ? w.kernels : Kernels{};
}

TableRows with_liger(TableRows rows, const Run& run, LigerPart part, bool first) {
  const auto kernels = layer_kernels(run);
  const bool backward = part != LigerPart::Kept && part != LigerPart::NothingKept;
  if (kernels.rms_norm) {
    if (backward) rows = norm_backward(std::move(rows), run, part, first);
    else rows = patched(std::move(rows), run, part == LigerPart::Kept ? "VF" : "VN");
    for (auto& row : rows) {
      if (!backward && row.step == "input norm" && input_without_gradient(run, first)) row = with_macro({row}, "NK", "NX").front();
    }
  }
  if (kernels.rope) rows = patched(std::move(rows), run, !backward ? "RV" : run.workload.attention == Attention::Eager ? "RX" : "RW");
  if (kernels.swiglu) rows = patched(std::move(rows), run, backward ? "SB" : part == LigerPart::Kept ? "SF" : "SE");
  return rows;
}

TableRows with_liger_top(TableRows rows, const Run& run) {
  return patched(std::move(rows), run, run.ds.zero.stage == 3 ? "VU" : "VT");
}

}  // namespace zplan
