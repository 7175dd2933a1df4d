// Element-wise bytes a token and layer. Each line is a kernel group of the modules in transformers' modeling files;
// w is the width of the model's numbers, norms compute in fp32.
#include "time/kernels.h"

namespace zplan {
namespace {

struct Norm { double forward, backward; };

// RMSNorm as transformers writes it: to fp32, square, mean, scale, back, times weight; backward node by node. In an
// fp32 model the two conversions are no kernels. Liger: one fused kernel each way. Bytes an element.
Norm norm_bytes(const Workload& w, double width, bool trainable) {
  const double add_to_running_gradient = 3 * width;
  if (w.kernels.rms_norm) return {2 * width, 3 * width + add_to_running_gradient};
  const double convert = width == 4 ? 0 : 2 * (width + 4);
  const double forward = convert + 8 /* square */ + 4 /* mean */ + 8 /* scale */ + 2 * width /* weight */;
  const double weight = 2 * width /* dn */ + (trainable ? 4 * width /* product and its row sum */ : 0);
  const double backward = weight + convert + 8 + 8 + 4 /* the two factors of the scale */ + 4 /* mean */ +
                          28 + 12 /* square, added in place */ + add_to_running_gradient;
  return {forward, backward};
}

// x·cos + rotate_half(x)·sin, bytes an element of q and k; backward scatters the halves back.
Norm rotary_bytes(const Workload& w, double width) {
  if (w.kernels.rope) return {2 * width, 2 * width};
  return {10 * width, 15 * width};
}

// Adapter branch of one linear: A's input, B's output, scale, add. In stage 3 PEFT's adapters are fp32, so the input
// is converted, the branch runs in fp32 and the sum is converted back. docs/memory-model.md says why.
Norm adapter_bytes(double in, double out, double width, bool fp32_adapters) {
  if (!fp32_adapters) return {width * (in + 6 * out), width * (3 * in + 4 * out)};
  return {(width + 8) * in + (4 + 8 + 8 + width + 4 + width) * out,
          (8 + width + 3 * width) * in + (width + 4 + 4 + width + 8 + 8) * out};
}

double adapters(const Model& m, double width, bool fp32_adapters, double Norm::*direction) {
  double bytes = 0;
  const auto linears = layer_linears(m);
  for (int i = 0; i < linears.count; ++i) {
    const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
    bytes += adapter_bytes(static_cast<double>(in), static_cast<double>(out), width, fp32_adapters).*direction;
  }
  return bytes;
}

// Routed tokens: gather, masks, activation, weights, back in order, sum over the chosen experts.
double expert_bytes(const Model& m, double width) {
  const auto& e = *m.experts;
  const double k = static_cast<double>(e.per_token), h = static_cast<double>(m.hidden);
  const double i = static_cast<double>(e.intermediate);
  return k * width * (9 * h + 9 * i) + 16 * static_cast<double>(e.count);
}

}  // namespace

double layer_forward_bytes(const Model& m, const Workload& w, double width, bool fp32_adapters) {
  const double h = static_cast<double>(m.hidden), f = static_cast<double>(m.intermediate);
  const double qk = static_cast<double>(m.attention_width() + m.kv_width());
  const bool trainable = !w.adapted();
  const double norm = norm_bytes(w, width, trainable).forward;
  double bytes = 2 * h * norm + 2 * h * 3 * width /* residuals */ + qk * rotary_bytes(w, width).forward;
  if (m.qk_norm) bytes += qk * norm;
  bytes += m.experts ? expert_bytes(m, width) : f * width * (w.kernels.swiglu ? 3 : 5);
  if (w.adapted()) bytes += adapters(m, width, fp32_adapters, &Norm::forward);
  return bytes;
}

double layer_backward_bytes(const Model& m, const Workload& w, double width, bool fp32_adapters) {
  const double h = static_cast<double>(m.hidden), f = static_cast<double>(m.intermediate);
  const double qk = static_cast<double>(m.attention_width() + m.kv_width());
  const bool trainable = !w.adapted();
  const double norm = norm_bytes(w, width, trainable).backward;
  // Gradients of inputs used twice or thrice are summed: gate and up, then q, k and v.
  double bytes = 2 * h * norm + 9 * width * h + qk * (rotary_bytes(w, width).backward + 2 * width /* reshape */);
  if (m.qk_norm) bytes += qk * norm;
  bytes += m.experts ? 2.2 * expert_bytes(m, width) : f * width * (w.kernels.swiglu ? 5 : 9);
  if (w.adapted()) bytes += adapters(m, width, fp32_adapters, &Norm::backward);
  return bytes;
}

}  // namespace zplan
