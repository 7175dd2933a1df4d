#include "time/kernels.h"

#include <bit>
#include <cmath>

namespace zplan {
namespace {

// Bytes an element of nf4 dequantisation (bitsandbytes): half a byte read, two written, absmax besides.
constexpr double dequantize_bytes = 2.7;
// A score of eager attention: scale, mask (broadcast), softmax in fp32, conversions; forward and backward.
constexpr Traffic eager_forward{24, 1}, eager_backward{48, 0};

class Layer {
 public:
  Layer(const Run& run, const ModelShape& shape, const GpuRates& rates)
      : m_(run.model), w_(run.workload), shape_(shape), r_(rates),
        tokens_(static_cast<double>(run.tokens())), width_(static_cast<double>(zplan::width(run.ds.precision).count)),
        zero3_(run.ds.zero.stage == 3),
        wide_adapters_(adapters_stay_fp32(run.workload, run.ds, run.versions.switches)),
        masked_(masked_sdpa(run)) {
    const auto linears = layer_linears(m_);
    for (int i = 0; i < linears.count; ++i) {
      const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
      last_linear_ = r_.matmul_seconds(tokens_, static_cast<double>(out), static_cast<double>(in), width_);
      linears_ += last_linear_;
    }
    if (w_.adapted()) adapters();
    if (m_.experts) experts();
    attention();
    if (w_.finetune == Finetune::Qlora) {
      dequantize_ = static_cast<double>(shape_.quantized) / static_cast<double>(m_.layers) * dequantize_bytes /
                    r_.memory_bytes_per_s;
    }
  }

  KernelSeconds forward() const {
    return {linears_ + experts_ + adapters_ + eager_matmul_, attention_,
            r_.seconds(tokens_ * layer_forward_traffic(m_, w_, width_, wide_adapters_)) + dequantize_ +
                r_.seconds(eager_scores_ * eager_forward)};
  }

  // Non-reentrant recomputation stops at the last tensor that backward needs: down_proj is not run again. ZeRO-3's
  // linear saves its parameter through a hook and does run it; reentrant runs everything.
  KernelSeconds recompute() const {
    KernelSeconds k = forward();
    const bool stops_early = w_.recompute.impl == RecomputeImpl::NonReentrant && !zero3_ && !m_.experts;
    if (stops_early) k.matmul -= last_linear_;
    return k;
  }

  KernelSeconds backward(bool trains) const {
    const double products = trains ? 2 : 1;  // a frozen weight needs only its input's gradient
    return {products * (linears_ + experts_) + 2 * (adapters_ + eager_matmul_),
            attention_ * 2.5 / r_.attention_backward,
            r_.seconds(tokens_ * layer_backward_traffic(m_, w_, width_, wide_adapters_, trains)) + dequantize_ +
                r_.seconds(eager_scores_ * eager_backward)};
  }

 private:
  void adapters() {
    const double rank = static_cast<double>(w_.lora_rank), wide = wide_adapters_ ? 4 : width_;
    const auto linears = layer_linears(m_);
    for (int i = 0; i < linears.count; ++i) {
      const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
      adapters_ += r_.matmul_seconds(tokens_, rank, static_cast<double>(in), wide) +
                   r_.matmul_seconds(tokens_, static_cast<double>(out), rank, wide);
    }
  }

  // Grouped products over the experts: every routed token's flops, every expert's weights once through memory.
  void experts() {
    const auto& e = *m_.experts;
    const double routed = tokens_ * static_cast<double>(e.per_token), h = static_cast<double>(m_.hidden);
    const double i = static_cast<double>(e.intermediate), n = static_cast<double>(e.count);
    const double flops = 6 * routed * h * i / r_.matmul_flops_per_s;
    const double bytes = width_ * (3 * n * h * i + routed * (2 * h + 3 * i)) / r_.memory_bytes_per_s;
    experts_ = std::max(flops, bytes) + 2 * r_.matmul_launch_s + r_.matmul_seconds(tokens_, n, h, width_);
  }

  void attention() {
    const double s = static_cast<double>(w_.seq_len), a = static_cast<double>(m_.attention_width());
    if (w_.attention == Attention::Eager) {  // two full products of every score, no causal saving
      eager_matmul_ = 4 * tokens_ * s * a / r_.matmul_flops_per_s + 2 * r_.matmul_launch_s;
      eager_scores_ = tokens_ * s * static_cast<double>(m_.heads);
      return;
    }
    // A mask tensor takes sdpa off the causal path: the whole square is computed.
    const double square = masked_ ? 4 : 2;
    attention_ = square * tokens_ * s * a / r_.attention_rate(s);
  }

  const Model& m_;
  const Workload& w_;
  const ModelShape& shape_;
  const GpuRates& r_;
  double tokens_, width_;
  bool zero3_, wide_adapters_, masked_;
  double linears_ = 0, last_linear_ = 0, adapters_ = 0, experts_ = 0, attention_ = 0;
  double eager_matmul_ = 0, eager_scores_ = 0, dequantize_ = 0;
};

// Head and loss. Plain: logits in the model's type, widened to fp32, log-softmax over three reads and a write; backward
// fills zeros, reads the gradient twice and the output once, writes, and narrows. Fused (Liger): chunk by chunk, logits'
// gradient made in the forward together with both products of backward; the product that makes the weight's gradient
// reads and writes the sum (addmm).
void add_head(const Run& run, const GpuRates& r, MicroStepKernels& k) {
  const double n = static_cast<double>(run.tokens()), v = static_cast<double>(run.model.vocab);
  const double h = static_cast<double>(run.model.hidden);
  const double w = static_cast<double>(width(run.ds.precision).count);
  const bool trains_weight = !run.workload.adapted();
  const double products = trains_weight ? 2 : 1;
  if (run.workload.finetune == Finetune::Full) {  // the embedding's gradient: zeros, and a tied head's added to it
    k.backward += {0, 0, r.seconds(v * h * Traffic{run.model.tied_embeddings ? 4 * w : w, 0})};
  }
  if (!run.workload.kernels.fused_linear_cross_entropy) {
    const double product = r.matmul_seconds(n, v, h, w);
    const bool converts = w != 4;
    k.forward += {product, 0, r.seconds(n * v * Traffic{16, converts ? 1.0 : 0.0})};
    k.backward += {products * product, 0, r.seconds(n * v * Traffic{4 + 16 + (converts ? w + 4 : 0), 0})};
    return;
  }
  // Liger: chunk = next power of two of ceil(n / ceil(v / h)).
  const double wanted = std::ceil(n / std::ceil(v / h));
  const double chunk = static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(wanted)));
  const double chunks = std::ceil(n / chunk);
  const Traffic sums{trains_weight ? chunks * v * h * 2 * w : 0, 0};
  k.forward += {(1 + products) * chunks * r.matmul_seconds(chunk, v, h, w), 0, r.seconds(n * v * Traffic{3 * w, 0} + sums)};
}

}  // namespace

MicroStepKernels micro_step_kernels(const Run& run, const ModelShape& shape, const GpuRates& rates) {
  const Layer layer(run, shape, rates);
  MicroStepKernels k;
  k.forward = static_cast<double>(shape.layers) * layer.forward();
  k.backward = static_cast<double>(shape.trained_layers) * layer.backward(!run.workload.adapted());
  k.backward += static_cast<double>(shape.backward_layers - shape.trained_layers) * layer.backward(false);
  if (run.workload.recompute.any()) {
    // Layers 0, n, 2n, ... are checkpointed, frozen ones with them.
    k.recompute = static_cast<double>(ceil_div(shape.layers, run.workload.recompute.every)) * layer.recompute();
  }
  add_head(run, rates, k);
  return k;
}

}  // namespace zplan
