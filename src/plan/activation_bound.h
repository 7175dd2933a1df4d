// Closed forms of what a micro-step keeps and needs for activations: sums of the event tables, never above what the
// events add up to. docs/memory-model.md#activation-bounds
#pragma once

#include <cstdint>

#include "spec/model.h"
#include "spec/workload.h"
#include "units/units.h"

namespace zplan {

// Sizes of one micro-step, named as in the tables.
struct MicroStep {
  std::int64_t tokens = 0;  // N
  std::int64_t layers = 0;
  std::int64_t checkpointed = 0;     // of them: only their input is kept
  Bytes kept_layer;         // by one layer that is not checkpointed, or while a checkpointed one runs backward
  Bytes boundary;           // 2NH
  Bytes logits;             // NV, times a width
  Bytes outside_layers;     // final norm and its output
  Bytes mlp;                // NF, times a width
};

// Bytes a layer keeps for backward for each token. Section numbers of the tables' sums:
//   full, sdpa        16H + 8 + 10A + 10K + 8h + 4g + 8F
//   eager attention   4A + 6hS more, 4K + 4h less
//   Liger's norms     8H + 4A + 4K less, with adapters 4H + 2A + 2K; its SwiGLU 2F less; its rope as much
//   LoRA, bf16        12H + 8 +  8A +  8K + 8h + 4g + 8F + 14r; fp32 adapters (ZeRO-3): + 20H + 4A + 4F + 14r
//   experts           in place of 8F: 4kH + 8kM + 4E + 39k + 4
// Without q and k norms 6A + 6K + 4(h + g) of it fall away.
inline std::int64_t kept_per_token(const Model& m, const Workload& w, bool fp32_adapters) {
  const auto H = m.hidden, A = m.attention_width(), K = m.kv_width(), h = m.heads, g = m.kv_heads, F = m.intermediate;
  const auto norms = m.qk_norm ? 0 : 6 * A + 6 * K + 4 * (h + g);
  const bool lora = w.adapted();
  // The norm keeps its input in place of an fp32 copy and, where its weight trains, a normed one; SwiGLU no silu.
  const auto normed = 2 * H + (m.qk_norm ? A + K : 0);
  const auto liger = (w.kernels.rms_norm ? (lora ? 2 : 4) * normed : 0) + (w.kernels.swiglu ? 2 * F : 0);
  const auto eager = w.attention == Attention::Eager ? 4 * A + 6 * h * w.seq_len - 4 * K - 4 * h : 0;
  if (m.experts) {
    const auto& e = *m.experts;
    const auto k = e.per_token, M = e.intermediate;
    return 16 * H + 8 + 10 * A + 10 * K + 8 * h + 4 * g + 4 * k * H + 8 * k * M + 4 * e.count + 39 * k + 4 + eager - norms;
  }
  if (lora) {
    const auto r = w.lora_rank;
    const auto bf16 = 12 * H + 8 + 8 * A + 8 * K + 8 * h + 4 * g + 8 * F + 14 * r;
    return bf16 + (fp32_adapters ? 20 * H + 4 * A + 4 * F + 14 * r : 0) + eager - norms - liger;
  }
  return 16 * H + 8 + 10 * A + 10 * K + 8 * h + 4 * g + 8 * F + eager - norms - liger;
}

inline std::int64_t checkpointed_layers(const Model& m, const Recompute& recompute) {
  return recompute.every > 0 ? ceil_div(m.layers, recompute.every) : 0;
}

inline MicroStep micro_step(const Model& m, const Workload& w, std::int64_t micro_batch, bool fp32_adapters) {
  const bool lora = w.adapted();
  const auto N = micro_batch * w.seq_len;
  MicroStep s;
  s.tokens = N;
  // Nothing below the first trained layer is kept.
  s.layers = w.finetune == Finetune::Freeze ? m.layers - w.freeze_layers : m.layers;
  s.checkpointed = w.finetune == Finetune::Freeze ? 0 : checkpointed_layers(m, w.recompute);
  s.kept_layer = {N * kept_per_token(m, w, fp32_adapters)};
  s.boundary = {w.recompute.offload ? 0 : 2 * N * m.hidden};
  s.logits = {N * m.vocab};
  const auto final_norm = w.kernels.rms_norm ? 2 : lora ? 4 : 6;  // its input, or f.x32 and, trained, f.n; f.rs
  s.outside_layers = {N * (final_norm * m.hidden + 4)};
  s.mlp = {m.experts || lora || w.kernels.swiglu ? 0 : N * m.intermediate};
  return s;
}

}  // namespace zplan
