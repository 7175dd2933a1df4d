#include "time/host.h"

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

// Modules outside the layers that hooks sit on: the engine's root, model, embedding, rotary, final norm, head, loss.
constexpr double outer_modules = 7;

// Of one pass: each parameter's handle, wait and release, a leaf's together; those that arrive in one buffer with others are
// copied out of it besides. Adapters are fp32 in stage 3: a batch is split by type, and nothing arrives alone (t08).
double gather_host_seconds(const Run& run, const Gathers& g, bool leaf, const TimeCoefficients& c) {
  const double copied_out = run.workload.adapted() ? g.tensors : g.copied_out;
  return (leaf ? g.calls : g.tensors) * c.host_zero3_gather_s.value + copied_out * c.host_zero3_copy_out_s.value;
}

}  // namespace

HostSeconds host_seconds(const Run& run, const ModelShape& s, const MicroStepGathers& gathers, const TimeCoefficients& c) {
  const auto& z = run.ds.zero;
  const bool zero3 = z.stage == 3;
  const double layers = static_cast<double>(s.layers), backward_layers = static_cast<double>(s.backward_layers);
  const double recomputed = run.workload.recompute.any() ? 1.0 / static_cast<double>(run.workload.recompute.every) : 0;
  const double forward_ops = forward_operators(run.model, run.workload, s, zero3);
  const double operators = c.host_operator_s.value;
  HostSeconds h;
  h.forward_operators = layers * forward_ops + outer_forward_operators;
  h.backward_operators = backward_layers * (backward_operators(run.model, run.workload, s, zero3) + recomputed * forward_ops) +
                         outer_backward_operators;
  h.forward = h.forward_operators * operators;
  h.backward = h.backward_operators * operators;
  h.step = static_cast<double>(s.trainable_tensors) * c.host_step_tensor_s.value;
  // Offload takes each gradient once more in hand: its norm, its conversion, its copy to the host.
  const double gradients = static_cast<double>(s.trainable_tensors) *
                           (z.stage >= 1 && z.offload_optimizer.device != OffloadDevice::None ? 2 : 1);
  // Until the boundary stage 1 leaves gradients where autograd accumulates them (reduce_ready_partitions_and_remove_grads).
  if (z.stage == 1) h.boundary_backward = gradients * c.host_gradient_hook_s.value;
  if (z.stage == 2) h.backward += gradients * c.host_gradient_hook_s.value;
  if (!zero3) return h;

  const bool leaf = layer_is_leaf(run, s);
  const double modules = leaf ? 1 : static_cast<double>(s.modules_per_layer);
  const double module = c.host_zero3_module_s.value;
  h.forward += (layers * modules + outer_modules) * module;
  h.backward += (backward_layers * modules + outer_modules) * c.host_zero3_module_backward_s.value + layers * modules * recomputed * module;
  if (run.world_size > 1) {
    h.forward += gather_host_seconds(run, gathers.forward, leaf, c);
    h.backward += gather_host_seconds(run, gathers.backward, leaf, c);
  }
  const double buckets = tensor_batches(run.model, run.workload, true, 0, z.reduce_bucket_size).batches;
  h.backward += gradients * c.host_zero3_gradient_s.value + buckets * c.host_zero3_bucket_s.value;
  return h;
}

}  // namespace zplan
