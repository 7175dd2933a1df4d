// Liger's kernels, any of them, against what a layer keeps.
#include "step/simulate.h"
#include "step/simulation.h"

#include "tests/catch.h"

using namespace zplan;

namespace {

constexpr std::int64_t N = 1024, H = 1024, A = 2048, K = 1024, F = 3072, layers = 3;

Run run_of(int stage, Finetune finetune, std::int64_t every, Kernels kernels) {
  Run r;
  auto& m = r.model;
  m.model_type = "qwen3";
  m.hidden = H;
  m.intermediate = F;
  m.layers = layers;
  m.heads = 16;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.vocab = 16'384;
  m.tied_embeddings = m.qk_norm = true;
  r.workload.seq_len = N;
  r.workload.finetune = finetune;
  r.workload.recompute.every = every;
  r.workload.kernels = kernels;
  r.world_size = 4;
  r.steps = 2;
  r.ds.zero.stage = stage;
  r.ds.zero.reduce_bucket_size = 1'000'000;
  r.versions = default_versions();
  r.gpu.sm_count = 132;
  r.gpu.cublas_workspace = {33'554'432};
  r.gpu.memory_total = GiB(141);
  r.alloc_conf = "expandable_segments:True";  // every rest is split off: allocated is the sum of the tensors
  return r;
}

// Allocated at the end of the second step's forward.
std::int64_t after_forward(const Run& run) {
  for (const auto& phase : simulate(run, Detail::Figures).phases) {
    if (phase.step == 1 && phase.phase == Phase::Forward) return phase.figures.allocated.count;
  }
  return -1;
}

}  // namespace

TEST_CASE("what Liger's kernels save of a forward's kept bytes, each by itself and together", "[step]") {
  const bool rms_norm = GENERATE(false, true), rope = GENERATE(false, true), swiglu = GENERATE(false, true);
  const int stage = GENERATE(0, 2, 3);
  const auto finetune = GENERATE(Finetune::Full, Finetune::Lora);
  INFO("rms_norm " << rms_norm << " rope " << rope << " swiglu " << swiglu << " stage " << stage << " adapters "
                   << (finetune == Finetune::Lora));
  const auto before = after_forward(run_of(stage, finetune, 0, {}));
  const auto after = after_forward(run_of(stage, finetune, 0, {false, rms_norm, rope, swiglu}));
  // A norm over C keeps its input, 2C, in place of the fp32 copy and, trained, the normed input: 6C; frozen 4C. With
  // adapters the first layer's input norm keeps nothing either way. SwiGLU keeps no silu.
  const auto trained = finetune == Finetune::Full;
  const auto norms = trained ? layers * 4 * (2 * H + A + K) + 4 * H : layers * 2 * (2 * H + A + K) - 2 * H + 2 * H;
  CHECK(before - after == N * ((rms_norm ? norms : 0) + (swiglu ? layers * 2 * F : 0)));
}

TEST_CASE("checkpointed layers keep the same with Liger's kernels; the final norm its input", "[step]") {
  const auto impl = GENERATE(RecomputeImpl::NonReentrant, RecomputeImpl::Reentrant);
  const int stage = GENERATE(2, 3);
  const auto with = [&](Kernels kernels) {
    auto run = run_of(stage, Finetune::Full, 1, kernels);
    run.workload.recompute.impl = impl;
    return after_forward(run);
  };
  CHECK(with({}) - with({false, false, true, true}) == 0);
  CHECK(with({}) - with({false, true, true, true}) == N * 4 * H);
}

TEST_CASE("a training ends with what it began a step with, whatever the kernels", "[step]") {
  const bool fused = GENERATE(false, true), rms_norm = GENERATE(false, true), rope = GENERATE(false, true), swiglu = GENERATE(false, true);
  const int stage = GENERATE(2, 3);
  const auto every = GENERATE(0, 1, 2);
  INFO("fused " << fused << " rms_norm " << rms_norm << " rope " << rope << " swiglu " << swiglu << " stage " << stage << " every " << every);
  auto run = run_of(stage, Finetune::Full, every, {fused, rms_norm, rope, swiglu});
  run.steps = 3;
  const auto phases = simulate(run, Detail::Figures).phases;
  const auto step_end = [&](std::int64_t step) {
    for (const auto& phase : phases) {
      if (phase.step == step && phase.phase == Phase::Step) return phase.figures.allocated.count;
    }
    return std::int64_t{-1};
  };
  CHECK(step_end(1) == step_end(2));
}

TEST_CASE("Liger's loss copies the shifted labels of several rows, as the plain loss does", "[step]") {
  const std::int64_t rows = GENERATE(1, 2);
  // Tensors of one int64 a token that the first forward makes.
  const auto token_numbers = [rows](const Kernels& kernels) {
    auto run = run_of(2, Finetune::Full, 0, kernels);
    run.ds.train_micro_batch_size_per_gpu = rows;
    const auto history = simulate_events(run);
    std::int64_t count = 0;
    std::size_t at = 0;
    for (const auto& mark : history.phases) {
      for (; at < mark.end; ++at) {
        const auto& e = history.events[at];
        count += mark.phase == Phase::Forward && mark.step == 0 && e.action == Action::Allocate && e.bytes == 8 * rows * N;
      }
    }
    return count;
  };
  // Liger counts the labels that are not ignored: one more.
  CHECK(token_numbers({true, false, false, false}) == token_numbers({}) + 1);
}
