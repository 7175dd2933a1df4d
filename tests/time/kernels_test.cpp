#include "time/kernels.h"

#include "tests/catch.h"
#include "tests/time/machines.h"

using namespace zplan;

namespace {
MicroStepKernels kernels(const Run& r, const TimeCoefficients& c = {}) {
  return micro_step_kernels(r, model_shape(r.model, r.workload),
                            gpu_rates(r.gpu, r.ds.precision, r.workload.attention, c));
}
}  // namespace

// Worked in docs/time-model.md#element-wise-kernels.
TEST_CASE("element-wise kernels of one Qwen3-8B layer, a token", "[time]") {
  const Model m = testing::model("qwen3-8b");
  Workload plain, fused;
  fused.kernels = {.fused_linear_cross_entropy = true, .rms_norm = true, .rope = true, .swiglu = true};
  const double h = 4096, qk = 4096 + 1024, f = 12'288;
  CHECK(layer_forward_traffic(m, plain, 2, false) ==
        Traffic{2 * h * 18 + 12 * h + qk * 14 + 10 * f, 2 * h * 3 + qk * (4 + 4.5)});
  CHECK(layer_backward_traffic(m, plain, 2, false, true) ==
        Traffic{2 * h * 76 + 18 * h + qk * (46 + 4) + 18 * f, 2 * h * 4 + qk * (10.5 + 5.5)});
  CHECK(layer_forward_traffic(m, fused, 2, false) == Traffic{2 * h * 4 + 12 * h + qk * (4 + 4) + 6 * f, 0});
  CHECK(layer_forward_traffic(m, plain, 4, false).bytes > layer_forward_traffic(m, plain, 2, false).bytes);
  CHECK(layer_forward_traffic(m, plain, 4, false).indexed < layer_forward_traffic(m, plain, 2, false).indexed);  // no types change
}

TEST_CASE("flops of a Qwen3-8B micro-step at the large-shape rate", "[time]") {
  TimeCoefficients ideal;
  ideal.matmul_launch_s.value = 0;
  const Cluster machine = testing::cluster("h200-sxm-141gb", 2);
  const Run r = testing::run("qwen3-8b", machine, 2, 2);
  const auto k = kernels(r, ideal);
  const double rate = 787e12, tokens = 4096;
  const double layers = 36 * 192'937'984.0, head = 151'936 * 4096.0;  // weights that multiply every token
  CHECK(k.forward.matmul == Approx(2 * tokens * (layers + head) / rate));
  CHECK(k.backward.matmul == Approx(4 * tokens * (layers + head) / rate));
  // Non-reentrant recomputation leaves down_proj and the head out.
  CHECK(k.recompute.matmul == Approx(2 * tokens * (layers - 36 * 12'288 * 4096.0) / rate));
  // Causal attention: 2 s² h e a sequence and layer; backward two and a half times that, at 0.85 of the rate.
  CHECK(k.forward.attention == Approx(36 * 2 * 2 * 2048.0 * 2048 * 4096 / (0.58 * 989e12 * 2048 / 2548)));
  CHECK(k.backward.attention == Approx(k.forward.attention * 2.5 / 0.85));
}

TEST_CASE("what recomputation, adapters, freezing and fused loss change", "[time]") {
  const Cluster machine = testing::cluster("h200-sxm-141gb", 2);
  const Run base = testing::run("qwen3-8b", machine, 2, 2);
  const auto full = kernels(base);

  Run none = base;
  none.workload.recompute.every = 0;
  CHECK(kernels(none).recompute.total() == 0);
  Run half = base;
  half.workload.recompute.every = 2;
  CHECK(kernels(half).recompute.total() == Approx(full.recompute.total() / 2));
  Run zero3 = base;
  zero3.ds.zero.stage = 3;  // its linear saves through a hook: down_proj is run again
  CHECK(kernels(zero3).recompute.matmul > full.recompute.matmul);

  Run lora = base;
  lora.workload.finetune = Finetune::Lora;
  CHECK(kernels(lora).backward.matmul < 0.62 * full.backward.matmul);  // input gradients only
  CHECK(kernels(lora).forward.total() > full.forward.total());
  Run qlora = lora;
  qlora.workload.finetune = Finetune::Qlora;
  CHECK(kernels(qlora).forward.element_wise > kernels(lora).forward.element_wise);  // weights are unpacked

  Run frozen = base;
  frozen.workload.finetune = Finetune::Freeze;
  frozen.workload.freeze_layers = 18;
  // With checkpointing the embedding's output requires a gradient: frozen layers pass it on, without one of their weights.
  CHECK(kernels(frozen).recompute.total() == Approx(full.recompute.total()));
  const double head = 4.0 * 4096 * 151'936 * 4096 / 787e12;
  CHECK(kernels(frozen).backward.matmul - head == Approx(0.75 * (full.backward.matmul - head)).epsilon(0.01));
  Run not_recomputed = frozen, whole = base;
  not_recomputed.workload.recompute.every = whole.workload.recompute.every = 0;
  CHECK(kernels(not_recomputed).backward.total() < 0.6 * kernels(whole).backward.total());  // they take no part in backward

  Run fused = base;
  fused.workload.kernels.fused_linear_cross_entropy = true;
  CHECK(kernels(fused).forward.matmul > full.forward.matmul);    // the head's backward is in the forward
  CHECK(kernels(fused).backward.matmul < full.backward.matmul);
  Run eager = base;
  eager.workload.attention = Attention::Eager;
  CHECK(kernels(eager).forward.total() > full.forward.total());
  Run masked = base;
  masked.workload.attention_mask = true;
  CHECK(kernels(masked).forward.attention == Approx(2 * full.forward.attention));
}

TEST_CASE("a mixture of experts multiplies by the chosen experts and reads them all", "[time]") {
  const Cluster machine = testing::cluster("h200-sxm-141gb", 8);
  const auto few = kernels(testing::run("qwen3-30b-a3b", machine, 3, 1));
  const auto many = kernels(testing::run("qwen3-30b-a3b", machine, 3, 8));
  CHECK(many.forward.matmul > 2 * few.forward.matmul);
  CHECK(many.forward.matmul < 8 * few.forward.matmul);  // with few tokens the weights' bytes decide
}
