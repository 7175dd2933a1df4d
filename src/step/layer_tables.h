// The event tables of one layer for a run's fine-tuning, attention, kernels, checkpointing and stage.
#pragma once

#include "spec/run.h"
#include "step/liger_rows.h"
#include "step/table.h"

namespace zplan {

// torch_autocast: whole training without checkpointing, of models with norms on q and k and no biases.
// Others use the 16-bit tables.
bool autocast_layers(const Run& run);

// ZeRO-3 with torch's own linear in place of DeepSpeed's (zero/linear.py): the setting is off, or an older release got a
// model that was built outside zero.Init.
bool torch_linears(const Run& run);
// The same where its events are known: whole training of a dense decoder without checkpointing.
bool torch_linear_layers(const Run& run);

// The mask lives through the model's forward: eager always makes one, sdpa if it is masked.
bool holds_mask(const Run& run);

// Qwen2Model and Qwen3Model drop the embedding and the rotary tables before the position ids, other models after.
bool passes_positions_first(const Model& model);

// MistralModel and Qwen3MoeModel call a layer with position_ids before position_embeddings, the others after: a
// checkpointed layer drops its arguments in that order.
bool layers_take_positions_first(const Model& model);

// The tables of one layer for the run's fine-tuning, attention and stage.
class LayerTables {
 public:
  explicit LayerTables(const Run& run);

  // Kept for backward. first: the layer above the embedding.
  TableRows forward(bool first) const;
  // An evaluation: nothing kept, under no_grad.
  TableRows evaluation() const { return without_grad(forward_nothing_kept()); }
  // Nothing kept: a checkpointed region.
  TableRows forward_nothing_kept() const;
  // Run again inside the backward of a checkpointed layer.
  TableRows recompute() const;
  // Backward; top: the last layer, where it differs (has_top).
  TableRows backward(bool checkpointed, bool first, bool top) const;
  // Under Liger's norms.
  bool has_top() const;
  // The lowest trainable layer above frozen ones.
  TableRows lowest_forward() const;
  TableRows lowest_backward() const;

 private:
  enum class Part { Kept, NothingKept, Backward, CheckpointedBackward };
  // A reentrant region runs under no_grad.
  TableRows region(TableRows rows) const;
  // sdpa returns its row sums, and a router keeps the weights that it divides in place, only where autograd is on.
  static TableRows without_grad(TableRows rows);
  // enable_input_require_grads, which checkpointing asks for, makes the frozen embedding's output take a gradient.
  bool input_takes_gradient() const { return run_.workload.recompute.any(); }
  // bitsandbytes' 4-bit linears in place of the frozen ones.
  TableRows quantized(TableRows rows) const;
  // ZeRO-3: adapters in fp32, or in the model's dtype.
  TableRows adapter_width(TableRows rows) const;
  TableRows layer_backward(bool checkpointed, bool first) const;
  LigerPart backward_part(bool checkpointed) const;
  // The backward of a sparse feed-forward, then what follows the post norm of the dense layer.
  TableRows over_experts(TableRows sparse, const TableRows& layer) const;
  // A layer with adapters, its experts frozen.
  TableRows adapted_forward(bool first, const char* experts_rows) const;
  TableRows adapted_layer(const char* experts_rows) const;
  TableRows over_frozen_experts(const TableRows& layer, Part part) const;
  // Attention and norms of the dense layer, then the sparse feed-forward.
  TableRows experts(const char* layer, Part part, const char* feed_forward) const;
  // The run's attention in place of the row sdpa, with what that changes around it; its own rows, none where sdpa's is right.
  TableRows attention(TableRows rows, Part part) const;
  TableRows attention_kernel(Part part) const;
  bool several_rows() const { return run_.ds.train_micro_batch_size_per_gpu > 1; }
  TableRows finished(TableRows rows) const;

  const TableBook& book_;
  const Run& run_;
  bool zero3_, adapted_, fp32_adapters_, dropout_;
};

}  // namespace zplan
