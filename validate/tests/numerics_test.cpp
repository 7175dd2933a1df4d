#include <cmath>
#include <map>

#include "runs.h"
#include "tests/catch.h"

namespace zplan::trainer {
namespace {

struct Case {
  std::string name;
  int stage = 0, world = 1;
  std::int64_t grad_accum = 1;
  Precision precision = Precision::Fp32;
  std::int64_t recompute_every = 0;
  RecomputeImpl impl = RecomputeImpl::NonReentrant;
  bool overlap = false, offload_optimizer = false, offload_param = false, tied = false, stand_in = false,
       sequential = false;
  std::int64_t bucket = 500'000'000, sub_group = 1'000'000'000, persistence = 100'000, prefetch = 50'000'000,
               max_live = 1'000'000'000, max_reuse = 1'000'000'000;
};

std::vector<double> losses(const Case& c) {
  Plan plan = tiny_plan();
  plan.run.world_size = c.world;
  plan.stand_in = c.stand_in;
  plan.run.model.tied_embeddings = c.tied;
  plan.run.workload.recompute = {c.recompute_every, c.impl, false};
  DsConfig& ds = plan.run.ds;
  ds.gradient_accumulation_steps = c.grad_accum;
  ds.precision = c.precision;
  ZeroConfig& z = ds.zero;
  z.stage = c.stage;
  z.overlap_comm = c.overlap;
  z.reduce_bucket_size = c.bucket;
  if (c.offload_optimizer) z.offload_optimizer.device = OffloadDevice::Cpu;
  if (c.offload_param) z.offload_param.device = OffloadDevice::Cpu;
  z.sub_group_size = c.sub_group;
  z.stage3_param_persistence_threshold = c.persistence;
  z.stage3_prefetch_bucket_size = c.prefetch;
  z.stage3_allgather_sequential = c.sequential;
  z.stage3_max_live_parameters = c.max_live;
  z.stage3_max_reuse_distance = c.max_reuse;
  const TemporaryFolder folder;
  const Outcome outcome = run(plan, folder);
  INFO(outcome.message);
  REQUIRE(outcome.code == kOk);
  CHECK(outcome.record["outcome"] == "ok");
  return outcome.record["losses"].get<std::vector<double>>();
}

// One process, fp32, no ZeRO, over the same sequences: as many micro-steps as the case has ranks and micro-steps.
// Computed once for each number of micro-steps and kind of head.
class References {
 public:
  const std::vector<double>& of(const Case& c) {
    auto& curve = curves_[{c.world * c.grad_accum, c.tied}];
    if (curve.empty()) {
      Case plain;
      plain.grad_accum = c.world * c.grad_accum;
      plain.tied = c.tied;
      curve = losses(plain);
    }
    return curve;
  }

 private:
  std::map<std::pair<std::int64_t, bool>, std::vector<double>> curves_;
};

std::vector<Case> cases() {
  const auto at = [](std::string name, int stage, int world) {
    Case c;
    c.name = std::move(name);
    c.stage = stage;
    c.world = world;
    c.bucket = 5000;
    return c;
  };
  const auto with = [](Case c, auto change) { change(c); return c; };
  using C = Case&;
  const auto sharp = [](C c) { c.persistence = 40; c.sub_group = 3000; };        // norms of 32 and 8 persist
  const auto tight = [sharp](C c) { sharp(c); c.prefetch = 2000; c.max_live = 6000; c.max_reuse = 500; };
  return {
      with(at("stage 0, 2 ranks", 0, 2), [](C) {}),
      with(at("stage 0, accumulation 2, tied", 0, 1), [](C c) { c.grad_accum = 2; c.tied = true; }),
      with(at("stage 1, 2 ranks", 1, 2), [](C) {}),
      with(at("stage 1, 3 ranks (padding), overlap", 1, 3), [](C c) { c.overlap = true; }),
      with(at("stage 1, 2 ranks, accumulation 2, overlap", 1, 2), [](C c) { c.grad_accum = 2; c.overlap = true; }),
      with(at("stage 1, 2 ranks, accumulation 2, offload", 1, 2), [](C c) { c.grad_accum = 2; c.offload_optimizer = true; }),
      with(at("stage 2, 2 ranks, tied", 2, 2), [](C c) { c.tied = true; }),
      with(at("stage 2, 3 ranks, accumulation 3", 2, 3), [](C c) { c.grad_accum = 3; }),
      with(at("stage 2, parameters larger than the bucket", 2, 2), [](C c) { c.bucket = 1500; c.overlap = true; }),
      with(at("stage 2, 2 ranks, accumulation 2, offload", 2, 2), [](C c) { c.grad_accum = 2; c.offload_optimizer = true; }),
      with(at("stage 2, non-reentrant checkpointing", 2, 2), [](C c) { c.recompute_every = 1; }),
      with(at("stage 2, reentrant checkpointing", 2, 2), [](C c) { c.recompute_every = 1; c.impl = RecomputeImpl::Reentrant; }),
      with(at("stage 3, 1 rank", 3, 1), sharp),
      with(at("stage 3, 2 ranks, tied", 3, 2), [sharp](C c) { sharp(c); c.tied = true; }),
      with(at("stage 3, 3 ranks (padding), accumulation 2", 3, 3), [sharp](C c) { sharp(c); c.grad_accum = 2; }),
      with(at("stage 3, tight limits, every 2nd layer checkpointed", 3, 2), [tight](C c) { tight(c); c.recompute_every = 2; }),
      with(at("stage 3, non-reentrant checkpointing", 3, 2), [sharp](C c) { sharp(c); c.recompute_every = 1; }),
      with(at("stage 3, reentrant checkpointing", 3, 2), [sharp](C c) { sharp(c); c.recompute_every = 1; c.impl = RecomputeImpl::Reentrant; }),
      with(at("stage 3, nothing kept, nothing prefetched", 3, 2), [sharp](C c) { sharp(c); c.prefetch = 0; c.max_live = 0; c.max_reuse = 0; c.recompute_every = 1; }),
      with(at("stage 3, optimizer offloaded, accumulation 2", 3, 2), [sharp](C c) { sharp(c); c.grad_accum = 2; c.offload_optimizer = true; }),
      with(at("stage 3, both offloaded, checkpointing", 3, 2), [sharp](C c) { sharp(c); c.offload_optimizer = c.offload_param = true; c.recompute_every = 1; }),
      with(at("stage 3, parameters larger than the bucket", 3, 2), [sharp](C c) { sharp(c); c.bucket = 900; }),
      with(at("stage 3, each parameter gathered alone, 3 ranks (padding)", 3, 3), [sharp](C c) { sharp(c); c.sequential = true; }),
      with(at("stage 3, each gathered alone, tight limits, both offloaded", 3, 2), [tight](C c) { tight(c); c.sequential = c.offload_optimizer = c.offload_param = true; c.recompute_every = 1; }),
  };
}

double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("the reference learns: its loss falls from ln(96) by more than 1 in 20 steps", "[validate][numerics]") {
  const std::vector<double> curve = losses({});
  REQUIRE(curve.size() == 20);
  CHECK(curve.front() == Approx(std::log(96.0)).margin(0.1));  // random weights know nothing
  CHECK(curve.back() < curve.front() - 1);
}

TEST_CASE("every stage in fp32 has the loss curve of one process without ZeRO", "[validate][numerics]") {
  References references;
  for (const Case& c : cases()) {
    INFO(c.name);
    CHECK(worst_difference(losses(c), references.of(c)) < 2e-3);
  }
}

TEST_CASE("16-bit training follows the fp32 curve within its precision", "[validate][numerics]") {
  References references;
  for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
    for (const int stage : {0, 1, 2, 3}) {
      Case c;
      c.name = (precision == Precision::Bf16 ? "bf16, stage " : "fp16, stage ") + std::to_string(stage);
      c.stage = stage;
      c.world = 2;
      c.precision = precision;
      c.recompute_every = 1;
      c.persistence = 40;
      c.bucket = 5000;
      INFO(c.name);
      CHECK(worst_difference(losses(c), references.of(c)) < 0.05);
    }
  }
}

}  // namespace zplan::trainer
