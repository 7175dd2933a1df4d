// What a GPU reaches, from its data sheet figures and the coefficients: matrix products, attention, memory.
// docs/time-model.md#rates
#pragma once

#include <algorithm>
#include <cstdint>

#include "spec/hardware.h"
#include "spec/workload.h"
#include "time/coefficients.h"

namespace zplan {

// What element-wise kernels and reductions have to do. A kernel over whole, contiguous tensors streams bytes. One that
// broadcasts, strides, joins or widens types computes an index for each element, and the SMs are its limit, not memory.
struct Traffic {
  double bytes = 0;    // streamed: every read and every write
  double indexed = 0;  // elements of kernels that compute an index for each
  Traffic& operator+=(const Traffic& o) {
    bytes += o.bytes, indexed += o.indexed;
    return *this;
  }
  friend Traffic operator+(Traffic a, const Traffic& b) { return a += b; }
  friend Traffic operator*(double n, const Traffic& t) { return {n * t.bytes, n * t.indexed}; }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

struct GpuRates {
  double matmul_flops_per_s = 0;     // large shapes
  double matmul_launch_s = 0;        // what one product costs beyond its flops: launch, waves, ramp
  double memory_bytes_per_s = 0;     // kernels that stream, every read and write counted
  double indexed_per_s = 0;          // elements of kernels that compute an index for each
  double fused_adam_bytes_per_s = 0; // of the optimizer's one kernel over many tensors
  double attention_flops_per_s = 0;  // fused attention, forward, long sequences; causal flops counted once
  double attention_half_length = 0;  // tokens at which the attention kernel reaches half of that
  double attention_backward = 0;     // rate of its backward over the rate of its forward
  double matmul_error = 0;           // relative error of the rate of products, for the uncertainty
  double attention_error = 0;        // relative error of the attention rate, for the uncertainty

  // Seconds of one m x n x k product of operands of `width` bytes: flops at the large-shape rate or operands
  // through memory, whichever is longer, plus the fixed cost.
  double matmul_seconds(double m, double n, double k, double width) const {
    const double flops = 2 * m * n * k / matmul_flops_per_s;
    const double bytes = width * (m * k + k * n + m * n) / memory_bytes_per_s;
    return std::max(flops, bytes) + matmul_launch_s;
  }
  double seconds(const Traffic& t) const { return t.bytes / memory_bytes_per_s + t.indexed / indexed_per_s; }
  double attention_rate(double seq_len) const {
    return attention_flops_per_s * seq_len / (seq_len + attention_half_length);
  }
};

// "9.0" -> 9; 0 where the text is not a CUDA compute capability.
int compute_capability_major(const Gpu& gpu);

// Which kernel sdpa and flash mean depends on the generation: cuDNN on Hopper and later data-centre parts,
// FlashAttention-2 on Ampere and Ada, the memory-efficient kernel before.
GpuRates gpu_rates(const Gpu& gpu, Precision precision, Attention attention, const TimeCoefficients& c);

}  // namespace zplan
