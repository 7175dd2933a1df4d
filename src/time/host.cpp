#include "time/host.h"

#include <algorithm>

namespace zplan {
namespace {

// Operators that one forward of a layer issues from Python. Norm: 8 (fused: 1); rotary of q and k: 14 (fused: 1);
// attention with its views: 6, eager 14; residuals 2; activation and product 2 (fused: 1).
double forward_operators(const Model& m, const Workload& w, const ModelShape& s, bool zero3) {
  const double linears = layer_linears(m).count;
  double n = static_cast<double>(s.norms_per_layer) * (w.kernels.rms_norm ? 1 : 8) + (w.kernels.rope ? 1 : 14) +
             (w.attention == Attention::Eager ? 14 : 6) + 2 + linears;
  n += m.experts ? 40 : (w.kernels.swiglu ? 1 : 2);
  if (w.adapted()) n += linears * (zero3 ? 8 : 6);  // A, B, scale, add, fp32 conversions; lora.Linear's own Python: 2
  if (w.finetune == Finetune::Qlora) n += 3 * linears;
  return n;
}

// Nodes and kernels that autograd issues for the layer's backward.
double backward_operators(const Model& m, const Workload& w, const ModelShape& s, bool zero3) {
  const double linears = layer_linears(m).count;
  double n = static_cast<double>(s.norms_per_layer) * (w.kernels.rms_norm ? 3 : 17) + (w.kernels.rope ? 2 : 18) +
             (w.attention == Attention::Eager ? 14 : 3) + 5 + linears * (w.adapted() ? 1 : 2);
  n += m.experts ? 60 : (w.kernels.swiglu ? 1 : 3);
  if (w.adapted()) n += linears * (zero3 ? 9 : 7);
  if (w.finetune == Finetune::Qlora) n += 3 * linears;
  return n;
}

// Operators outside the layers: embedding, positions, mask, final norm, head, loss.
constexpr double outer_forward_operators = 60, outer_backward_operators = 40;

// Stage 3 treats a layer as one leaf when its elements a module stay below the granularity threshold.
bool layer_is_leaf(const Run& run, const ModelShape& s) {
  const auto threshold = run.ds.zero.stage3_module_granularity_threshold;
  return threshold > 0 && s.layer_elements / std::max<std::int64_t>(s.modules_per_layer, 1) <= threshold;
}

// Modules outside the layers that hooks sit on: the engine's root, model, embedding, rotary, final norm, head, loss.
constexpr double outer_modules = 7;

// One pass's gathers: each parameter's handle, wait and release; those that arrive in one buffer with others are copied
// out of it besides. Adapters are fp32 in stage 3: a batch is split by type, and nothing arrives alone (t08).
double gather_host_seconds(const Run& run, const ModelShape& s, const TimeCoefficients& c) {
  const auto& z = run.ds.zero;
  const auto persistent = z.stage3_param_persistence_threshold;
  const double gathered = tensor_batches(run.model, run.workload, false, persistent, 1).large_tensors;
  if (layer_is_leaf(run, s)) {
    return static_cast<double>(s.layers + 2) * c.host_zero3_gather_s.value + gathered * c.host_zero3_copy_out_s.value;
  }
  const auto alone_from = std::max(persistent, z.stage3_prefetch_bucket_size);
  const double alone = run.workload.adapted() ? 0
                       : z.stage3_allgather_sequential
                           ? gathered
                           : tensor_batches(run.model, run.workload, false, alone_from, 1).large_tensors;
  return gathered * c.host_zero3_gather_s.value + (gathered - alone) * c.host_zero3_copy_out_s.value;
}

}  // namespace

double gathered_again(const Run& run, const ModelShape& s) {
  const auto& z = run.ds.zero;
  const bool prefetches = z.stage3_prefetch_bucket_size > 0, reuses = z.stage3_max_reuse_distance > 0;
  // Prefetching fills the live set up to its limit and holds on to what it skips as already there; without it only the
  // head, last in forward and first in backward, is still there.
  const auto kept = prefetches && reuses ? z.stage3_max_live_parameters : 0;
  const auto turn = reuses ? s.head_elements : 0;
  const double share = static_cast<double>(std::max(kept, turn)) / static_cast<double>(s.elements);
  double again = std::max(0.0, 1.0 - share);
  // A reuse distance below a layer lets go of it between recomputation and its backward, unless a prefetch holds it.
  if (run.workload.recompute.any() && z.stage3_max_reuse_distance < s.layer_elements) {
    constexpr double let_go_despite_prefetch = 0.25;
    again += (prefetches ? let_go_despite_prefetch : 1) * static_cast<double>(s.layer_elements * s.layers) /
             static_cast<double>(s.elements);
  }
  return again;
}

HostSeconds host_seconds(const Run& run, const ModelShape& s, const TimeCoefficients& c) {
  const auto& z = run.ds.zero;
  const bool zero3 = z.stage == 3;
  const double layers = static_cast<double>(s.layers), trained = static_cast<double>(s.trained_layers);
  const double recomputed = run.workload.recompute.any() ? 1.0 / static_cast<double>(run.workload.recompute.every) : 0;
  const double forward_ops = forward_operators(run.model, run.workload, s, zero3);
  const double operators = c.host_operator_s.value;
  HostSeconds h;
  h.forward = (layers * forward_ops + outer_forward_operators) * operators;
  h.backward = (trained * (backward_operators(run.model, run.workload, s, zero3) + recomputed * forward_ops) +
                outer_backward_operators) * operators;
  h.step = static_cast<double>(s.trainable_tensors) * c.host_step_tensor_s.value;
  // Offload takes each gradient once more in hand: its norm, its conversion, its copy to the host.
  const double gradients = static_cast<double>(s.trainable_tensors) *
                           (z.stage >= 1 && z.offload_optimizer.device != OffloadDevice::None ? 2 : 1);
  // Until the boundary stage 1 leaves gradients where autograd accumulates them (reduce_ready_partitions_and_remove_grads).
  if (z.stage == 1) h.boundary_backward = gradients * c.host_gradient_hook_s.value;
  if (z.stage == 2) h.backward += gradients * c.host_gradient_hook_s.value;
  if (!zero3) return h;

  const double modules = layer_is_leaf(run, s) ? 1 : static_cast<double>(s.modules_per_layer);
  const double module = c.host_zero3_module_s.value;
  double forward = (layers * modules + outer_modules) * module;
  double backward = (layers * modules * (1 + recomputed) + outer_modules) * module;
  if (run.world_size > 1) {
    const double gather = gather_host_seconds(run, s, c);
    forward += gather;
    backward += gather * gathered_again(run, s);
  }
  backward += gradients * c.host_zero3_gradient_s.value;
  h.forward += forward;
  h.backward += backward;
  h.zero3 = forward + backward;
  return h;
}

}  // namespace zplan
