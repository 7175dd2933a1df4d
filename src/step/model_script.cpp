// Chooses the event tables for a run's kernels and has them turned into instructions.
#include <algorithm>
#include <string>
#include <vector>

#include "step/engine.h"
#include "step/full_precision.h"
#include "step/layer_tables.h"
#include "step/script.h"
#include "step/script_compiler.h"
#include "step/table.h"
#include "step/tables/all.h"

namespace zplan {
namespace {

// The steps of embedding_dense_backward in place of the row that makes dE.
TableRows with_sorted_embedding(const TableRows& rows) {
  TableRows out = table_book().rows("ES");
  for (const auto& row : rows) {
    if (row.step != "embedding") {
      out.push_back(row);
      continue;
    }
    for (auto& sorted : out) {
      if (sorted.step == "embedding") sorted.allocates = row.allocates;  // 2VH, or 4VH in fp32
    }
    out.push_back({"embedded", "", row.frees, ""});
  }
  return out;
}

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
  const bool adapted = run.workload.adapted();
  const bool tied = run.model.tied_embeddings;
  const bool reentrant = run.workload.recompute.impl == RecomputeImpl::Reentrant;
  Script& s = c.script();

  const Bound xprev = {{"xprev", {"x"}}};
  for (const bool first : {false, true}) {
    const Bound drop_input = first ? Bound{} : xprev;
    auto& plain = s.layers[first][0];
    plain.forward = c.layer(tables.forward(first), Pass::Forward, first, drop_input);
    const Bound masks = holds_mask(run) ? Bound{{"mask", {"mask"}}} : Bound{};
    plain.backward = c.layer(tables.backward(false, first, false), Pass::Backward, first, masks);
    auto& checkpointed = s.layers[first][1];
    checkpointed.forward = c.layer(tables.forward_nothing_kept(), Pass::Forward, first, {});
    s.eval_layer[first] = c.layer(tables.evaluation(), Pass::Forward, first, drop_input);
    if (run.workload.finetune == Finetune::Freeze) {
      s.frozen[first].forward = s.eval_layer[first];
      s.lowest[first].forward = c.layer(tables.lowest_forward(), Pass::Forward, first, drop_input);
      s.lowest[first].backward = c.layer(tables.lowest_backward(), Pass::Backward, first, {});
    }
    const auto again = c.layer(tables.recompute(), Pass::Forward, first, {});
    checkpointed.backward = c.layer(tables.backward(true, first, false), Pass::Backward, first, masks, &again);
    s.has_top = tables.has_top();
    if (s.has_top) {
      s.top[first][0] = {plain.forward, c.layer(tables.backward(false, first, true), Pass::Backward, first, masks)};
      s.top[first][1] = {checkpointed.forward, c.layer(tables.backward(true, first, true), Pass::Backward, first, masks, &again)};
    }
    if (reentrant) {
      auto first_again = again;
      for (auto& i : first_again) i.recompute = true;
      for (auto* backward : {&checkpointed.backward, &s.top[first][1].backward}) {
        backward->insert(backward->begin(), first_again.begin(), first_again.end());
      }
    }
  }

  const bool fp32 = full_precision(run), autocast = autocast_layers(run);
  const bool built_in_init = zero3 && run.workload.zero_init;
  const bool cast_in_forward = built_in_init || run.versions.switches.engine_casts_module;  // of inv_freq
  auto begin = book.rows(fp32 || autocast ? "PS" : cast_in_forward ? "P3" : "PF");
  if (run.ds.train_micro_batch_size_per_gpu > 1) begin = replaced(begin, book.rows("PB"));
  const bool eager = run.workload.attention == Attention::Eager;
  const auto rope = std::find_if(begin.begin(), begin.end(), [](const TableRow& r) { return r.step == "rope"; });
  if (eager) {
    const auto& mask = book.rows(run.model.sliding_window ? "PX" : "PE");
    const auto wide = fp32 ? ends_in_full_precision(mask) : mask;
    begin.insert(rope, wide.begin(), wide.end());
  } else if (window_mask(run)) {
    const auto& mask = book.rows("PW");
    begin.insert(rope, mask.begin(), mask.end());
  } else if (holds_mask(run)) {
    const TableRows rest(rope, begin.end());
    begin = append(append(rows_until(begin, "positions"), book.rows("PK")), rest);
  }
  s.forward_begin = c.outer(begin, Pass::Forward, {});
  const bool boundaries = run.workload.recompute.at(0);
  // The last layer's output goes with the final norm's cast, the embedding with the model's forward, unless
  // checkpointing holds them as boundaries.
  std::vector<std::string> arguments;
  const bool liger_norms = layer_kernels(run).rms_norm;
  if (!boundaries) {
    arguments = passes_positions_first(run.model) ? std::vector<std::string>{"pos", "emb"} : std::vector<std::string>{"emb", "pos"};
    // The first of Liger's norms and of fp32's keeps its input, unless nothing below it takes a gradient.
    if ((liger_norms && !adapted) || fp32) arguments = {"pos"};
    if (holds_mask(run)) arguments.insert(arguments.begin(), "mask");
  }
  const Bound ends = {{"args", arguments}, {"xlast", {"xlast"}}};
  const bool fused = run.workload.kernels.fused_linear_cross_entropy;
  const bool rows_many = run.ds.train_micro_batch_size_per_gpu > 1;
  auto head = book.rows(autocast ? (zero3 ? (rows_many ? "AW" : "AV") : rows_many ? "AM" : "AH") : fused ? (rows_many ? "HJ" : "HL") : rows_many ? "HM" : "HF");
  if (liger_norms) head = replaced(head, book.rows("VH"));
  if (liger_norms && fused) head = replaced(head, book.rows("VL"));
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
  if (fp32) head = ends_in_full_precision(std::move(head));
  s.forward_end = c.outer(head, Pass::Forward, ends);
  const std::vector<std::string> all_arguments = passes_positions_first(run.model) ? std::vector<std::string>{"pos", "emb"} : std::vector<std::string>{"emb", "pos"};
  auto evaluation = liger_norms ? replaced(book.rows("VE"), book.rows("VG")) : book.rows("VE");
  if (fp32) evaluation = ends_in_full_precision(std::move(evaluation));
  s.eval_end = c.outer(evaluation, Pass::Forward, {{"args", all_arguments}, {"xlast", {"xlast"}}});
  s.torch_linears = torch_linear_layers(run);
  const bool own_linear = zero3 && !s.torch_linears;  // DeepSpeed's
  auto loss = book.rows(autocast ? (zero3 ? "AU" : "AL") : frozen_head ? (zero3 ? "Z3" : "HZ") : own_linear ? "H3" : zero3 ? "HT" : "HB");
  // The head's gradient of a Python function is added to in place, MmBackward's is not.
  const bool in_place = own_linear || run.workload.kernels.fused_linear_cross_entropy;
  auto embedding = book.rows(autocast && tied ? "AT" : !tied ? "EU" : in_place ? "E3" : "HE");
  const bool kept_losses = run.versions.switches.engine_keeps_losses, scaled = loss_scaled(run);
  const bool divided = run.ds.gradient_accumulation_steps > 1;
  if (!scaled) loss = replaced(loss, book.rows(!kept_losses ? "UB" : divided ? "UD" : "UO"));
  else if (kept_losses) loss = replaced(loss, book.rows(divided ? "OB" : "OA"));
  if (kept_losses && divided) s.backward_prologue = c.outer(book.rows("OP"), Pass::Backward, {});
  const std::string head_gradient = fused ? "gw" : "dWh";
  if (fused) loss = replaced(loss, book.rows("HK"));
  if (!scaled && kept_losses && !divided) {  // neither: backward starts from the loss itself
    for (auto& row : loss) {
      if (const auto at = row.frees.find("t2"); at != std::string::npos) row.frees.erase(at, 2);
    }
  }
  if (liger_norms) {
    loss = replaced(loss, book.rows("VK"));
    // The final norm writes over the gradient it gets: without Liger's loss the head's input gradient.
    for (auto& row : loss) {
      if (const auto at = row.allocates.find("f.dy=2NH"); at != std::string::npos) row.allocates.replace(at, 4, "dout");
    }
  }
  if (adapted) loss = with_macro(loss, "NB", "N0");
  // Liger's loss leaves no product to the head's backward: the first of the backward's thread is an adapter's.
  if (adapted && fused) loss.push_back({"first product", "@cublas", "", ""});
  // A tied head's gradient waits inside autograd for the embedding's. An untied one's hook follows MmBackward at once;
  // from an autograd function of Python's (ZeRO-3's linear, Liger's loss) it runs in the norm's backward.
  Bound handed = {{"HEAD", {}}, {"UNTIED", {}}};
  if (!tied && !frozen_head) handed[own_linear || fused ? "HEAD" : "UNTIED"] = {head_gradient};
  if (fp32) loss = ends_in_full_precision(std::move(loss));
  s.backward_begin = c.outer(loss, Pass::Backward, handed);
  if (fp32 || autocast) embedding = ends_in_full_precision(std::move(embedding));
  if (run.tokens() > 3072) embedding = with_sorted_embedding(embedding);
  // A frozen embedding: with checkpointing its output was made to require a gradient (enable_input_require_grads),
  // so that its hook runs at the end of backward.
  if (adapted) {
    embedding.clear();
    const bool held = boundaries && (reentrant || !built_in_init);  // the gradient of a leaf
    if (run.workload.recompute.any() && zero3) embedding.push_back({"embedding", "", held ? "" : "dout", "embed_tokens("});
  }
  if (freeze) {
    embedding.clear();
    if (run.workload.recompute.any()) embedding.push_back({"embedding", "", "dout", ""});
  }
  embedding = append(embedding, book.rows(kept_losses && scaled ? "OE" : "BE"));
  s.backward_end = c.outer(embedding, Pass::Backward, {{"head", {head_gradient}}});
  // CheckpointFunction holds its arguments until the graph goes with the loss; so do a leaf and its gradient.
  std::vector<std::string> arguments_held;
  if (boundaries && reentrant) arguments_held = {"sin", "cos", "pos"};
  if (boundaries && reentrant && holds_mask(run)) arguments_held.insert(arguments_held.begin(), "mask");
  if (boundaries && adapted && (reentrant || !built_in_init)) {
    arguments_held.push_back("dout");
    arguments_held.push_back("emb");
  }
  s.backward_return = c.outer(book.rows(kept_losses ? (divided ? "OR" : "OQ") : loss_scaled(run) ? "BR" : "UR"), Pass::Backward, {{"loss", {fused ? "loss" : "l1"}}, {"held", arguments_held}});
  return c.finish();
}

}  // namespace zplan
