#include "time/rates.h"

#include "tests/catch.h"
#include "tests/time/machines.h"

using namespace zplan;

TEST_CASE("the rate of large products follows what was measured, or the data sheet", "[time]") {
  const TimeCoefficients c;
  const auto tflops = [&](const char* id, Precision p) {
    return gpu_rates(testing::gpu(id), p, Attention::Sdpa, c).matmul_flops_per_s / 1e12;
  };
  CHECK(tflops("h100-pcie-80gb", Precision::Bf16) == Approx(0.88 * 495.9));        // the best square product is known
  CHECK(tflops("h200-sxm-141gb", Precision::Bf16) == Approx(787));
  CHECK(tflops("h200-sxm-141gb", Precision::Fp16) == Approx(787));        // the same tensor cores
  CHECK(tflops("h200-sxm-141gb", Precision::Fp32) == Approx(0.88 * 0.80 * 67));    // torch leaves TF32 off
  CHECK(tflops("v100-sxm2-32gb", Precision::Fp16) == Approx(0.88 * 0.80 * 125));   // no bf16 product to scale by
  CHECK(tflops("v100-sxm2-32gb", Precision::Bf16) == Approx(0.88 * 0.65 * 15.7));  // no tensor path: as fp32, slower
}

TEST_CASE("which attention kernel runs is decided by the generation", "[time]") {
  const TimeCoefficients c;
  const auto tflops = [&](const char* id, Attention a) {
    return gpu_rates(testing::gpu(id), Precision::Bf16, a, c).attention_flops_per_s / 1e12;
  };
  CHECK(tflops("a100-sxm4-80gb", Attention::Sdpa) == Approx(0.60 * 312));
  CHECK(tflops("a100-sxm4-80gb", Attention::Flash) == Approx(0.60 * 312));
  CHECK(tflops("h100-sxm5-80gb", Attention::Sdpa) == Approx(0.58 * 989));
  CHECK(tflops("h100-sxm5-80gb", Attention::Flash) == Approx(2.54 * 132));
  CHECK(tflops("b200-sxm-180gb", Attention::Flash) == Approx(2.54 * 148));  // SMs, not the higher peak
  CHECK(tflops("v100-sxm2-32gb", Attention::Sdpa) == Approx(0.25 * 15.7));  // bf16 has no path there
}

TEST_CASE("small products cost their launch, thin ones their memory", "[time]") {
  const GpuRates r = gpu_rates(testing::gpu("h200-sxm-141gb"), Precision::Bf16, Attention::Sdpa, {});
  const double large = r.matmul_seconds(8192, 8192, 8192, 2);
  CHECK(large == Approx(2 * 8192.0 * 8192 * 8192 / 787e12 + 4e-6));
  CHECK(r.matmul_seconds(16, 16, 16, 2) == Approx(4e-6).epsilon(0.01));
  // One row times a weight reads the weight: 2 flops a 2-byte element stay far below the flops' rate.
  CHECK(r.matmul_seconds(1, 8192, 8192, 2) == Approx(2 * 8192.0 * 8192 / (0.80 * 4800e9) + 4e-6).epsilon(0.01));
}

TEST_CASE("attention reaches half its rate at the half length", "[time]") {
  const GpuRates r = gpu_rates(testing::gpu("a100-sxm4-80gb"), Precision::Bf16, Attention::Sdpa, {});
  CHECK(r.attention_rate(500) == Approx(r.attention_flops_per_s / 2));
  // FlashAttention-2 on A100, forward and backward together: 99, 155, 182 TFLOPS at 512, 2k, 8k tokens.
  CHECK(r.attention_rate(512) / 1e12 == Approx(99).epsilon(0.05));
  CHECK(r.attention_rate(2048) / 1e12 == Approx(155).epsilon(0.05));
  CHECK(r.attention_rate(8192) / 1e12 == Approx(182).epsilon(0.05));
}

TEST_CASE("kernels that compute indices are limited by the SMs, those that stream by memory", "[time]") {
  const auto rates = [](const char* id) { return gpu_rates(testing::gpu(id), Precision::Bf16, Attention::Sdpa, {}); };
  // 132 SMs at 1.98 GHz; 108 at 1.41, with half the fp32 lanes each; 128 at 2.52.
  CHECK(rates("h200-sxm-141gb").indexed_per_s == Approx(1.31 * 132 * 1.98e9).epsilon(0.005));
  CHECK(rates("a100-sxm4-80gb").indexed_per_s == Approx(1.31 * 108 * 1.41e9).epsilon(0.005));
  CHECK(rates("rtx-4090").indexed_per_s == Approx(1.31 * 128 * 2.52e9).epsilon(0.005));
  const GpuRates r = rates("h200-sxm-141gb");
  CHECK(r.seconds({4.8e12, 0}) == Approx(1 / 0.80));
  CHECK(r.seconds({0, 343e9}) == Approx(1).epsilon(0.01));
  CHECK(r.seconds(Traffic{4.8e12, 343e9}) == Approx(r.seconds({4.8e12, 0}) + r.seconds({0, 343e9})));
}
