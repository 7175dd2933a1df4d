#include "plan/bounds.h"

#include <algorithm>

#include "plan/activation_bound.h"
#include "spec/run.h"

namespace zplan {
namespace {

struct Widths {
  std::int64_t model, accumulation;
};

bool offloaded(const DsConfig& ds) { return ds.zero.offload_optimizer.device != OffloadDevice::None; }
// Stage 1 with fp32 accumulation of a 16-bit model (engine.py:_configure_bf16_optimizer).
bool bf16_optimizer(const DsConfig& ds) {
  return ds.zero.stage == 1 && ds.precision == Precision::Bf16 && ds.accumulation_dtype() == Precision::Fp32 &&
         !offloaded(ds);
}

// Bytes of Adam's two moments for each element.
std::int64_t moments(OptimizerKind kind) { return kind == OptimizerKind::Adam8bit ? 2 : 8; }
std::int64_t foreach_root(OptimizerKind kind) { return kind == OptimizerKind::TorchAdamForeach ? 4 : 0; }

// Gradients of the whole model that wait in .grad until the boundary: stage 0 always, stage 1 unless its hooks reduce
// them during a single backward (stage_1_and_2.py:process_gradients).
bool whole_gradients(const DsConfig& ds) {
  if (ds.zero.stage == 0) return true;
  return ds.zero.stage == 1 && !(ds.zero.overlap_comm && ds.gradient_accumulation_steps == 1);
}

PersistentBytes persistent(const Shard& s, const Workload& w, const DsConfig& ds, const Widths& width,
                           bool wide_adapters) {
  PersistentBytes p;
  const auto frozen = s.elements - s.trainable - s.quantized;
  if (ds.zero.stage == 3) {
    const auto adapter_extra = wide_adapters ? (4 - width.model) * s.adapter_part : 0;
    if (ds.zero.offload_param.device == OffloadDevice::None) {
      p.parameters = {width.model * (s.part + s.frozen_part) + adapter_extra};
      if (s.quantized > 0) p.parameters = {width.model * s.part + s.frozen_part / 2};
    }
    if (ds.zero.contiguous_gradients) p.buckets = {width.model * ds.zero.reduce_bucket_size};
    if (!offloaded(ds)) {
      p.gradients = {width.accumulation * s.part};
      p.optimizer = {(4 + moments(w.optimizer)) * s.part};
    }
    return p;
  }
  p.parameters = {width.model * (s.trainable + frozen) + s.quantized / 2};
  if (ds.zero.stage == 0) {
    p.optimizer = {(4 + moments(w.optimizer)) * s.trainable};
    if (ds.precision == Precision::Fp32) p.optimizer = {moments(w.optimizer) * s.trainable};
  } else if (offloaded(ds)) {
    p.gradients = {width.model * s.largest};  // temp_grad_buffer_for_gpu_offload
  } else {
    p.optimizer = {(4 + moments(w.optimizer)) * s.flat_part};
    if (bf16_optimizer(ds)) p.gradients = {4 * s.flat};
  }
  return p;
}

}  // namespace

const char* text(PeakMoment moment) {
  switch (moment) {
    case PeakMoment::ForwardLoss: return "log-softmax of the loss";
    case PeakMoment::BackwardLoss: return "backward of the loss";
    case PeakMoment::BackwardHead: return "gradient of the head";
    case PeakMoment::BackwardLastLayer: return "backward of the last layer";
    case PeakMoment::BackwardFirstLayer: return "backward of the first layer";
    case PeakMoment::BackwardEnd: return "gradient of the embedding";
    case PeakMoment::StepNorm: return "norm of the largest gradient";
    case PeakMoment::StepCast: return "cast of the gradients to fp32";
  }
  return "";
}

MemoryBound memory_bound(const Shard& s, const Model& model, const Workload& w, const DsConfig& ds,
                         const DeepSpeedSwitches& switches) {
  const Widths width{zplan::width(ds.precision).count, zplan::width(ds.accumulation_dtype()).count};
  const int stage = ds.zero.stage;
  const bool offload = offloaded(ds), fused = w.kernels.fused_linear_cross_entropy, sharded = stage == 3 && s.world_size > 1;
  const bool wide_adapters = adapters_stay_fp32(w, ds, switches);
  const MicroStep m = micro_step(model, w, ds.train_micro_batch_size_per_gpu, wide_adapters);
  MemoryBound b;
  b.persistent = persistent(s, w, ds, width, wide_adapters);
  const Bytes base = b.persistent.total();
  const auto set = [&b](PeakMoment moment, Bytes bytes) { b.at[static_cast<std::size_t>(moment)] = bytes; };

  const Bytes boundaries = m.checkpointed * m.boundary;
  const Bytes kept = boundaries + (m.layers - m.checkpointed) * m.kept_layer;
  const Bytes head_gradient{s.head_trained ? 2 * s.head : 0};
  const Bytes gathered_head{sharded ? 2 * s.head : 0};
  // Buckets that exist from the first gradient of a backward to its end (setup_buckets).
  const bool hook_buckets = stage == 2 || (stage == 1 && !whole_gradients(ds));
  const Bytes buckets{hook_buckets && ds.zero.contiguous_gradients && !bf16_optimizer(ds)
                          ? width.model * ds.zero.reduce_bucket_size * (ds.zero.overlap_comm ? 2 : 1)
                          : 0};

  // Loss and head. The fused loss makes the head's gradient in the forward.
  if (fused) {
    set(PeakMoment::ForwardLoss, base + kept + m.outside_layers + head_gradient + gathered_head);
    set(PeakMoment::BackwardLoss, base + kept + m.outside_layers + head_gradient);
    set(PeakMoment::BackwardHead, base + kept + m.outside_layers + head_gradient);
  } else {
    set(PeakMoment::ForwardLoss, base + kept + m.outside_layers + 10 * m.logits);
    set(PeakMoment::BackwardLoss, base + kept + m.outside_layers + 12 * m.logits);
    const Bytes at_gradient = 2 * m.logits + gathered_head + head_gradient;
    set(PeakMoment::BackwardHead, base + kept + m.outside_layers + std::max(at_gradient, head_gradient + buckets));
  }

  // Layers. At the gradient of `down` its input gradient stands beside the weight's; then gate and up follow without it.
  const bool dense = !model.experts && w.finetune == Finetune::Full;
  const Bytes down{dense ? 2 * model.hidden * model.intermediate : 0};
  const Bytes in_layer = std::max(2 * m.mlp + down + Bytes{sharded ? down.count : 0}, 4 * m.mlp);
  const Bytes last_below = m.checkpointed == m.layers ? boundaries + m.kept_layer : kept;
  set(PeakMoment::BackwardLastLayer, base + last_below + m.boundary + (w.recompute.any() ? Bytes{} : in_layer) +
                                         (w.recompute.every == 1 ? in_layer : Bytes{}));
  const bool whole = whole_gradients(ds);
  const auto below_head = std::max<std::int64_t>(0, s.trainable - s.layer - s.head - (model.tied_embeddings ? 0 : s.head));
  const Bytes others{whole && w.finetune == Finetune::Full ? width.model * below_head : 0};
  set(PeakMoment::BackwardFirstLayer, base + m.kept_layer + others);
  // All gradients are there, the embedding's last. Owned pieces have been copied out of the buckets by then, unless
  // the optimizer is on the host.
  const std::int64_t all_gradients = whole ? width.model * s.trainable : stage == 3 ? 0 : offload ? 0 : width.model * s.touched;
  set(PeakMoment::BackwardEnd, base + Bytes{std::max(all_gradients, head_gradient.count)});

  // The optimizer step.
  if (stage == 3 && !offload) {
    set(PeakMoment::StepNorm, base + Bytes{8 * s.largest_partition});
    // A sub-group closes when it has reached sub_group_size; one of a single tensor is not flattened.
    const auto group = std::min(ds.zero.sub_group_size, s.part);
    const bool several = ds.zero.sub_group_size > s.largest_partition && s.part > s.largest_partition;
    const auto cast = width.accumulation == 4 ? 0 : 4 * group;
    set(PeakMoment::StepCast, base + Bytes{(several ? width.accumulation * group : 0) + cast});
    b.at[static_cast<std::size_t>(PeakMoment::StepCast)] =
        std::max(b.at[static_cast<std::size_t>(PeakMoment::StepCast)],
                 base + Bytes{(width.accumulation == 4 && !several ? 0 : 4 + foreach_root(w.optimizer)) * group});
  } else if (stage == 3) {
    // One partition at a time is copied from the host, measured in double and cast (partition_grads).
    const auto n = s.largest_partition;
    set(PeakMoment::StepNorm, base + Bytes{width.accumulation * n + 8 * std::min<std::int64_t>(n, 250'000'000)});
    set(PeakMoment::StepCast, base + Bytes{(width.accumulation + 4) * n});
  } else if (stage == 0) {
    set(PeakMoment::StepNorm, base + Bytes{all_gradients});
    const bool flat = w.optimizer == OptimizerKind::DeepSpeedAdam;
    const auto copies = ds.precision == Precision::Fp32 ? 0 : flat ? 8 : 4 + foreach_root(w.optimizer);
    set(PeakMoment::StepCast, base + Bytes{(width.model + copies) * s.trainable});
  } else if (offload) {
    set(PeakMoment::StepNorm, base + buckets + Bytes{8 * s.largest_slice});
    set(PeakMoment::StepCast, base + buckets + Bytes{4 * s.largest_slice});
  } else if (!bf16_optimizer(ds)) {
    set(PeakMoment::StepNorm, base + Bytes{width.model * s.touched + 8 * s.largest_slice});
    const auto flattened = s.slices > 1 ? width.model : 0;
    const auto cast = width.model == 4 ? 0 : 4;
    set(PeakMoment::StepCast, base + Bytes{width.model * s.touched + (flattened + cast) * s.flat_part});
  } else {
    set(PeakMoment::StepNorm, base);
    set(PeakMoment::StepCast, base);
  }
  return b;
}

}  // namespace zplan
