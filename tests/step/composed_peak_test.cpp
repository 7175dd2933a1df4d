// The peak composed from parts is the simulated one, to the byte, in every phase. docs/memory-model.md#composed-peaks
#include "step/composed_peak.h"

#include <optional>
#include <string>

#include "spec/error.h"
#include "step/simulation.h"
#include "tests/catch.h"
#include "tests/plan/random_run.h"

using namespace zplan;

namespace {

// One model on one machine, every setting that moves memory drawn at random: runs share parts, so that a part which
// depends on more than its key says gives a wrong peak.
class RandomSettings {
 public:
  RandomSettings(std::uint32_t seed, Run base) : random_(seed), base_(std::move(base)) {}

  Run next() {
    Run run = random_.next({0, 1, 2, 3});
    run.model = base_.model;
    run.gpu = base_.gpu;
    run.world_size = base_.world_size;
    run.rank = random_.pick({0, 1, 2, 3}) % run.world_size;
    run.steps = random_.pick({2, 3});
    run.alloc_conf = "expandable_segments:True";
    auto& ds = run.ds;
    auto& zero = ds.zero;
    ds.precision = precision();
    ds.gradient_accumulation_steps = random_.pick({1, 2, 3});
    ds.gradient_clipping = random_.coin() ? 1 : 0;
    if (rarely()) ds.grad_accum_dtype = Precision::Fp32;
    if (rarely()) ds.communication_data_type = Precision::Fp32;
    ds.torch_autocast = ds.precision == Precision::Fp32 && random_.coin();
    ds.bf16_optimizer_states = ds.bf16_master_weights_and_grads = ds.precision == Precision::Bf16 && rarely();
    ds.bf16_immediate_grad_update = rarely();
    zero.contiguous_gradients = !rarely();
    zero.reduce_scatter = !rarely();
    zero.stage3_model_persistence_threshold = rarely() ? 3'000 : zero.stage3_model_persistence_threshold;
    if (rarely()) zero.offload_optimizer.ratio = 0.5;
    zero.memory_efficient_linear = !rarely();
    auto& w = run.workload;
    w.finetune = finetune();
    w.freeze_layers = run.model.layers / 2;
    w.recompute.every = random_.pick({0, 1, 2});
    w.recompute.impl = w.recompute.any() && rarely() ? RecomputeImpl::Reentrant : RecomputeImpl::NonReentrant;
    w.optimizer = zero.offload_optimizer.device == OffloadDevice::None && rarely() ? OptimizerKind::TorchAdamForeach
                                                                                   : OptimizerKind::DeepSpeedAdam;
    w.parameter_groups = random_.pick({1, 1, 2});
    w.attention_mask = rarely();
    w.eval_after = rarely();
    w.load = rarely() ? Load::Gpu : Load::Cpu;
    return run;
  }

 private:
  bool rarely() { return random_.pick({0, 0, 0, 1}) != 0; }
  Precision precision() {
    const auto n = random_.pick({0, 0, 0, 1, 1, 2});
    return n == 0 ? Precision::Bf16 : n == 1 ? Precision::Fp16 : Precision::Fp32;
  }
  Finetune finetune() {
    const auto n = random_.pick({0, 0, 0, 0, 1, 2, 3});
    return n == 0 ? Finetune::Full : n == 1 ? Finetune::Lora : n == 2 ? Finetune::Qlora : Finetune::Freeze;
  }

  testing::RandomRun random_;
  Run base_;
};

Run base_run(const char* type, std::int64_t layers, bool tied, std::int64_t world_size) {
  Run run;
  run.model.model_type = type;
  run.model.hidden = 256, run.model.intermediate = 768, run.model.layers = layers, run.model.vocab = 5003;
  run.model.heads = 4, run.model.kv_heads = 2, run.model.head_dim = 64;
  run.model.tied_embeddings = tied;
  run.model.qk_norm = std::string(type) != "llama";
  if (std::string(type) == "qwen3_moe") run.model.experts = Experts{4, 2, 256};
  run.gpu.sm_count = 108;
  run.gpu.cublas_workspace = Bytes{8'519'680};
  run.gpu.memory_total = GiB(40);
  run.world_size = world_size;
  return run;
}

std::optional<Simulation> simulated(const Run& run) {
  try {
    return simulate(run, Detail::Figures);
  } catch (const std::exception&) {
    return std::nullopt;  // a combination that cannot run, or whose events are not known
  }
}

}  // namespace

TEST_CASE("the composed peak is the simulated one in every phase, whatever the settings", "[step]") {
  struct Row {
    const char* type;
    std::int64_t layers;
    bool tied;
    std::int64_t world_size;
  };
  const auto row = GENERATE(Row{"qwen3", 5, true, 4}, Row{"qwen3", 1, false, 3}, Row{"llama", 4, false, 2},
                            Row{"qwen3_moe", 3, false, 4}, Row{"qwen3", 3, true, 1});
  RandomSettings random(41, base_run(row.type, row.layers, row.tied, row.world_size));
  PeakComposer composer;
  int compared = 0;
  for (int i = 0; i < 120; ++i) {
    const Run run = random.next();
    const auto full = simulated(run);
    if (!full) {
      CHECK_THROWS(composer.allocated(run));
      continue;
    }
    ++compared;
    INFO(row.type << " " << testing::describe(run));
    const auto composed = composer.allocated(run);
    REQUIRE(composed);
    CHECK(composed->bytes == full->peak.allocated);
    CHECK(std::string(name(composed->phase)) == name(full->peak.at.phase));
    CHECK(composed->step == full->peak.at.step);
    CHECK(composed->micro_step == full->peak.at.micro_step);
    REQUIRE(composed->phases.size() == full->phases.size());
    for (std::size_t p = 0; p < composed->phases.size(); ++p) {
      INFO(name(full->phases[p].phase) << " of step " << full->phases[p].step << "." << full->phases[p].micro_step);
      CHECK(composed->phases[p] == full->phases[p].figures.allocated_peak);
    }
  }
  CHECK(compared > 40);
}

TEST_CASE("runs that differ in one setting share the parts that do not depend on it", "[step]") {
  Run run = base_run("qwen3", 3, true, 4);
  run.ds.zero.stage = 3;
  run.alloc_conf = "expandable_segments:True";
  PeakComposer composer;
  const auto made_for = [&](auto change) {
    Run changed = run;
    change(changed);
    const auto before = composer.parts_made();
    REQUIRE(composer.allocated(changed));
    return composer.parts_made() - before;
  };
  CHECK(made_for([](Run&) {}) == 3);
  CHECK(made_for([](Run&) {}) == 0);
  CHECK(made_for([](Run& r) { r.ds.train_micro_batch_size_per_gpu = 2; }) == 1);
  CHECK(made_for([](Run& r) { r.workload.seq_len = 128; }) == 1);
  CHECK(made_for([](Run& r) { r.ds.zero.stage3_max_live_parameters = 0; }) == 1);
  CHECK(made_for([](Run& r) { r.ds.zero.reduce_bucket_size = 10'000; }) == 1);
  CHECK(made_for([](Run& r) {
          r.ds.train_micro_batch_size_per_gpu = 2;
          r.ds.zero.stage3_max_live_parameters = 0;
          r.ds.zero.reduce_bucket_size = 10'000;
        }) == 0);
  CHECK(made_for([](Run& r) { r.model.layers = 4; }) == 3);
}

TEST_CASE("without expandable segments what is live is composed, and more is allocated", "[step]") {
  testing::RandomRun random(5);
  PeakComposer composer;
  bool more = false;
  for (int i = 0; i < 40; ++i) {
    Run run = random.next({0, 1, 2, 3});
    run.alloc_conf.clear();
    INFO(testing::describe(run));
    CHECK_FALSE(composer.allocated(run));
    const auto live = composer.live(run);
    const auto plain = simulate(run, Detail::Figures).peak.allocated;
    run.alloc_conf = "expandable_segments:True";
    REQUIRE(live);
    CHECK(live->bytes == simulate(run, Detail::Figures).peak.allocated);
    CHECK(live->bytes <= plain);
    more = more || live->bytes < plain;
  }
  CHECK(more);
}

TEST_CASE("what only a simulation can tell is not composed", "[step]") {
  Run run = base_run("qwen3", 2, true, 4);
  run.ds.zero.stage = 3;
  run.alloc_conf = "expandable_segments:True";
  CHECK_FALSE(PeakComposer::unsupported(run));
  const auto reason = [&](auto change) {
    Run changed = run;
    change(changed);
    CHECK_FALSE(PeakComposer().allocated(changed));
    return PeakComposer::unsupported(changed).value_or("");
  };
  CHECK(reason([](Run& r) { r.alloc_conf.clear(); }) ==
        "without expandable segments blocks that are not split count whole");
  CHECK(reason([](Run& r) { r.capacity_limit = GiB(30); }) == "under a limit a run may end before its peak");
  CHECK(reason([](Run& r) { r.alloc_conf += ",roundup_power2_divisions:4"; }) == "roundup_power2_divisions");
  CHECK(reason([](Run& r) { r.ds.zero.zero_hpz_partition_size = 2; }) == "secondary partitions (hpZ)");
}
