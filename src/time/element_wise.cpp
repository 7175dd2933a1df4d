// Element-wise kernels of a layer, by token. Each line is a kernel group of the modules in transformers' modeling files,
// each number a kernel: the bytes it reads and writes an element, or the elements that it indexes one by one. w is the
// width of the model's numbers; norms compute in fp32. docs/time-model.md#element-wise-kernels
#include "time/kernels.h"

namespace zplan {
namespace {

struct BothWays {
  Traffic forward, backward;
};

// RMSNorm as transformers writes it, an element: to fp32, square, mean, scale, back, times weight. Backward node by node:
// the weight's gradient is a product and a sum over the rows; the square's is a copy (pow of 1), a doubling and a product.
// Rows as short as a head sum slowly, and their gradients come strided from the transposed views of attention. Liger: one
// kernel each way.
BothWays norm(const Workload& w, double width, bool of_heads, bool trainable) {
  const Traffic add_to_running_gradient{3 * width, 0};
  if (w.kernels.rms_norm) return {{2 * width, 0}, Traffic{3 * width, 0} + add_to_running_gradient};
  const bool converts = width != 4;
  const Traffic widen{0, converts ? 1.0 : 0.0}, narrow{converts ? width + 4 : 0, 0};
  const Traffic row_sum = of_heads ? Traffic{0, 1} : Traffic{4, 0};
  Traffic forward = widen + Traffic{8, 0} /* square */ + row_sum + Traffic{0, 1} /* scale */ + narrow + Traffic{0, 1} /* weight */;
  Traffic backward = Traffic{0, 1} /* weight */ + widen + Traffic{0, 1} /* scale */ + Traffic{12, 0} /* factor of the scale */ +
                     row_sum + Traffic{0, 1} /* mean's: divided */ + Traffic{8 + 8 + 12, 0} /* square */ + narrow;
  // A head's column sum is as slow as 2.5 indexed elements: 262,144 rows of 128.
  if (trainable) backward += of_heads ? Traffic{0, 1 + 2.5} : Traffic{4 * width, 0};
  backward += of_heads ? Traffic{0, 1 + 1} /* added to the mean's strided; made contiguous for the linear */ : Traffic{12, 0};
  if (!of_heads) backward += add_to_running_gradient;
  return {forward, backward};
}

// x·cos + rotate_half(x)·sin, an element of q and k: two products and a sum over transposed views, half of it negated, the
// halves joined. Backward: two products, the halves copied into two zeroed tensors, one negated, two sums.
BothWays rotary(const Workload& w, double width) {
  if (w.kernels.rope) return {{2 * width, 0}, {2 * width, 0}};
  return {{0, 2 + 1 + 0.5 + 1}, {2 * width, 2 + 1 + 0.5 + 2}};
}

// Adapter branch of one linear: A's input, B's output, scale, add. In stage 3 PEFT's adapters are fp32, so the input
// is widened, the branch runs in fp32 and the sum is narrowed. docs/memory-model.md says why.
BothWays adapter(double in, double out, double width, bool fp32_adapters) {
  if (!fp32_adapters) return {{width * (in + 6 * out), 0}, {width * (3 * in + 4 * out), 0}};
  return {{4 * in + (4 + 8 + 8 + width + 4 + width) * out, in},
          {(8 + width + 3 * width) * in + (4 + width + 8 + 8) * out, out}};
}

// Routed tokens: gather, masks, activation, weights, back in order, sum over the chosen experts.
double expert_bytes(const Model& m, double width) {
  const auto& e = *m.experts;
  const double k = static_cast<double>(e.per_token), h = static_cast<double>(m.hidden);
  const double i = static_cast<double>(e.intermediate);
  return k * width * (9 * h + 9 * i) + 16 * static_cast<double>(e.count);
}

Traffic layer(const Model& m, const Workload& w, double width, bool fp32_adapters, bool trainable, Traffic BothWays::*direction) {
  const double h = static_cast<double>(m.hidden), f = static_cast<double>(m.intermediate);
  const double qk = static_cast<double>(m.attention_width() + m.kv_width());
  const bool backward = direction == &BothWays::backward;
  Traffic t = 2 * h * (norm(w, width, false, trainable).*direction);
  // Sums: forward the two residuals; backward theirs, of the gradients of inputs used twice or thrice (gate and up, then q,
  // k and v), and what reaches the running gradient, which norm() counts.
  t += h * (backward ? Traffic{9 * width, 0} : Traffic{6 * width, 0});
  t += qk * (rotary(w, width).*direction);
  if (m.qk_norm) {
    t += qk * (norm(w, width, true, trainable).*direction);
  } else if (backward) {
    t += qk * Traffic{0, 1};  // the gradients of q and k made contiguous for their linears
  }
  // Activation and product: silu 2, product 3; backward two products and silu's.
  if (m.experts) {
    t += Traffic{(backward ? 2.2 : 1) * expert_bytes(m, width), 0};
  } else {
    t += f * width * Traffic{backward ? (w.kernels.swiglu ? 5.0 : 9.0) : (w.kernels.swiglu ? 3.0 : 5.0), 0};
  }
  if (w.adapted()) {
    const auto linears = layer_linears(m);
    for (int i = 0; i < linears.count; ++i) {
      const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
      t += adapter(static_cast<double>(in), static_cast<double>(out), width, fp32_adapters).*direction;
    }
  }
  return t;
}

}  // namespace

Traffic layer_forward_traffic(const Model& m, const Workload& w, double width, bool fp32_adapters) {
  return layer(m, w, width, fp32_adapters, false, &BothWays::forward);
}

Traffic layer_backward_traffic(const Model& m, const Workload& w, double width, bool fp32_adapters, bool trains) {
  return layer(m, w, width, fp32_adapters, trains, &BothWays::backward);
}

}  // namespace zplan
