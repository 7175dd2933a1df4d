#include "time/rates.h"

#include <cmath>

namespace zplan {
namespace {

constexpr double tera = 1e12;
constexpr double giga = 1e9;

// Dense peak of the data sheet for the kind of number; 0 where the GPU has no path for it.
double peak_tflops(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::Bf16: return gpu.bf16 ? gpu.bf16_tflops : 0;
    case Precision::Fp16: return gpu.fp16_tflops;
    case Precision::Fp32: return gpu.fp32_tflops;
  }
  return 0;
}

// Large products: those of training where the hardware file has them, else a share of the best square product, which is
// measured or the usual share of the peak. fp16 and bf16 run on the same tensor cores, so that the share found for one
// holds for the other.
double matmul_tflops(const Gpu& gpu, Precision precision, const TimeCoefficients& c) {
  const double peak = peak_tflops(gpu, precision);
  if (peak <= 0) return gpu.fp32_tflops * c.matmul_emulated_bf16.value * c.matmul_fraction.value;  // bf16 before Ampere: no tensor path
  const bool measured = precision != Precision::Fp32 && gpu.bf16_tflops > 0;
  if (measured && gpu.measured_bf16_training_matmul_tflops) {
    return peak * *gpu.measured_bf16_training_matmul_tflops / gpu.bf16_tflops;
  }
  if (measured && gpu.measured_bf16_matmul_tflops) {
    return peak * *gpu.measured_bf16_matmul_tflops / gpu.bf16_tflops * c.matmul_fraction.value;
  }
  return peak * c.matmul_attainable.value * c.matmul_fraction.value;
}

// Clocks a second of all SMs together, from the data sheet's fp32 rate: two flops a lane and clock; 64 lanes an SM on
// Volta, Turing and A100, 128 on the others.
double sm_clocks_per_s(const Gpu& gpu) {
  const bool few_lanes = gpu.compute_capability == "8.0" || compute_capability_major(gpu) < 8;
  return gpu.fp32_tflops * tera / (2 * (few_lanes ? 64 : 128));
}

struct AttentionRate {
  double tflops = 0, relative_error = 0;
};

AttentionRate attention_rate(const Gpu& gpu, Precision precision, Attention attention, const TimeCoefficients& c) {
  const int major = compute_capability_major(gpu);
  const double peak = peak_tflops(gpu, precision);
  const auto share = [](double of, const Coefficient& k) { return AttentionRate{of * k.value, k.relative_error}; };
  if (peak <= 0) return share(gpu.fp32_tflops, c.attention_memory_efficient);
  if (precision == Precision::Fp32 || major < 8) return share(peak, c.attention_memory_efficient);
  const bool data_centre = major == 9 || major == 10;
  if (!data_centre) return share(peak, c.attention_flash2);
  const AttentionRate cudnn = share(peak, c.attention_cudnn);
  if (attention != Attention::Flash || gpu.sm_count <= 0) return cudnn;
  // FlashAttention-2 issues Ampere's matrix instructions, whose rate grows with the SMs and not with the peak.
  const AttentionRate flash2 = share(static_cast<double>(gpu.sm_count), c.attention_flash2_tflops_per_sm);
  return flash2.tflops < cudnn.tflops ? flash2 : cudnn;
}

}  // namespace

int compute_capability_major(const Gpu& gpu) {
  int major = 0;
  for (const char digit : gpu.compute_capability) {
    if (digit < '0' || digit > '9') break;
    major = 10 * major + (digit - '0');
  }
  return major;
}

GpuRates gpu_rates(const Gpu& gpu, Precision precision, Attention attention, const TimeCoefficients& c) {
  const AttentionRate attended = attention_rate(gpu, precision, attention, c);
  GpuRates r;
  const double speed = c.gpu_speed.value;
  r.matmul_flops_per_s = matmul_tflops(gpu, precision, c) * speed * tera;
  r.matmul_launch_s = c.matmul_launch_s.value;
  r.memory_bytes_per_s = gpu.memory_gb_per_s * c.memory_fraction.value * speed * giga;
  r.indexed_per_s = sm_clocks_per_s(gpu) * c.indexed_per_clock.value * speed;
  r.fused_adam_bytes_per_s = gpu.memory_gb_per_s * c.fused_adam_fraction.value * speed * giga;
  r.attention_flops_per_s = attended.tflops * speed * tera;
  r.attention_half_length = c.attention_half_length.value;
  r.attention_backward = c.attention_backward.value;
  const bool known = gpu.measured_bf16_training_matmul_tflops && precision != Precision::Fp32;
  r.matmul_error = std::hypot(c.gpu_speed.relative_error, known ? 0 : c.matmul_fraction.relative_error);
  r.attention_error = attended.relative_error;
  return r;
}

}  // namespace zplan
