#include "time/step_time.h"

#include <cmath>
#include <random>

#include "tests/catch.h"
#include "tests/time/machines.h"

using namespace zplan;
using testing::cluster;

namespace {

// A run of random settings on a random machine; the same for the same seed.
struct Case {
  Run run;
  Cluster cluster;
};
Case random_case(std::mt19937& random) {
  const auto pick = [&](auto... options) {
    using T = std::common_type_t<decltype(options)...>;
    const T all[] = {static_cast<T>(options)...};
    return all[std::uniform_int_distribution<std::size_t>(0, sizeof...(options) - 1)(random)];
  };
  Case c;
  const std::string card = pick("h200-sxm-141gb", "a100-sxm4-40gb", "v100-sxm2-32gb", "rtx-4090", "b200-sxm-180gb");
  c.cluster = cluster(card, pick(1, 2, 4, 8), pick(1, 1, 2, 64), pick(0.0, 25.0, 400.0));
  c.run = testing::run(pick("qwen3-0.6b", "qwen3-8b", "qwen3-30b-a3b", "qwen2.5-7b"), c.cluster, pick(0, 1, 2, 3),
                       pick(1, 4, 32), pick(1, 2, 16));
  auto& z = c.run.ds.zero;
  z.overlap_comm = pick(true, false);
  z.offload_optimizer.device = pick(OffloadDevice::None, OffloadDevice::None, OffloadDevice::Cpu, OffloadDevice::Nvme);
  z.offload_param.device = pick(OffloadDevice::None, OffloadDevice::None, OffloadDevice::Cpu, OffloadDevice::Nvme);
  z.stage3_max_live_parameters = pick(0, 100'000'000, 1'000'000'000);
  z.stage3_max_reuse_distance = pick(0, 100'000'000, 1'000'000'000);
  z.stage3_prefetch_bucket_size = pick(0, 15'000'000, 50'000'000);
  z.zero_hpz_partition_size = pick(1, 1, 8);
  c.run.ds.precision = pick(Precision::Bf16, Precision::Fp16, Precision::Fp32);
  auto& w = c.run.workload;
  w.seq_len = pick(128, 2048, 32'768);
  w.finetune = pick(Finetune::Full, Finetune::Lora, Finetune::Qlora, Finetune::Freeze);
  w.freeze_layers = pick(0, 7, 1000);
  w.recompute.every = pick(0, 1, 3);
  w.recompute.offload = pick(true, false);
  w.attention = pick(Attention::Sdpa, Attention::Flash, Attention::Eager);
  w.kernels.fused_linear_cross_entropy = pick(true, false);
  w.kernels.rms_norm = pick(true, false);
  w.optimizer = pick(OptimizerKind::DeepSpeedAdam, OptimizerKind::TorchAdamForeach, OptimizerKind::Adam8bit);
  return c;
}

}  // namespace

TEST_CASE("properties of any step: finite, made of its parts, never below its bound", "[time]") {
  std::mt19937 random(20240607);
  for (int i = 0; i < 4000; ++i) {
    const Case c = random_case(random);
    const StepTime t = predict_step_time(c.run, c.cluster, {});
    CAPTURE(i, c.run.model.name, c.run.gpu.id, c.run.ds.zero.stage, t.total().count);
    REQUIRE(std::isfinite(t.total().count));
    REQUIRE(t.total().count > 0);
    for (std::size_t p = 0; p < time_parts; ++p) REQUIRE(t.parts[p] >= 0);
    const double micro_steps = static_cast<double>(c.run.ds.gradient_accumulation_steps);
    const double by_phase = micro_steps * t.forward_s + (micro_steps - 1) * t.backward_s + t.last_backward_s + t.step_s;
    REQUIRE(by_phase == Approx(t.total().count));
    REQUIRE(step_time_lower_bound(c.run, c.cluster, {}).count <= t.total().count * (1 + 1e-12));
    REQUIRE(t.relative_error > 0);
    REQUIRE(t.relative_error < 1);
    REQUIRE(t.gpu_busy_s <= t.total().count * (1 + 1e-12));
  }
}

TEST_CASE("the limiter is named", "[time]") {
  struct Row {
    const char* name;
    Cluster cluster;
    int stage;
    std::int64_t micro_batch, accumulation;
    OffloadDevice optimizer;
    const char* expected;
  };
  const auto none = OffloadDevice::None;
  const std::vector<Row> rows = {
      {"stage 3, one sequence", cluster("h200-sxm-141gb", 8), 3, 1, 1, none, "host-bound"},
      {"stage 3, large micro-batch", cluster("h200-sxm-141gb", 8), 3, 16, 1, none, "compute-bound"},
      {"stage 2", cluster("h200-sxm-141gb", 8), 2, 4, 1, none, "compute-bound"},
      {"CPU Adam", cluster("h200-sxm-141gb", 2), 3, 1, 1, OffloadDevice::Cpu, "optimizer-bound"},
      {"NVMe", cluster("h200-sxm-141gb", 2), 3, 1, 1, OffloadDevice::Nvme, "disk-bound"},
      {"stage 2 accumulating over slow Ethernet", cluster("a100-sxm4-80gb", 8, 4, 1.25), 2, 1, 16, none,
       "communication-bound"},
  };
  for (const auto& r : rows) {
    Run run = testing::run("qwen3-8b", r.cluster, r.stage, r.micro_batch, r.accumulation);
    run.ds.zero.offload_optimizer.device = r.optimizer;
    INFO(r.name);
    CHECK(limiter_text(predict_step_time(run, r.cluster, {}), run).rfind(r.expected, 0) == 0);
  }
}

TEST_CASE("what makes a step faster or slower", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 8);
  const auto tokens_per_second = [](const Run& r, const Cluster& c) {
    return predict_step_time(r, c, {}).tokens_per_second_per_gpu();
  };
  const Run z3 = testing::run("qwen3-8b", machine, 3, 1);
  // In stage 3 the host's time is spread over the micro-batch until the GPU's passes it.
  CHECK(tokens_per_second(testing::run("qwen3-8b", machine, 3, 2), machine) > 1.9 * tokens_per_second(z3, machine));
  CHECK(tokens_per_second(testing::run("qwen3-8b", machine, 3, 32), machine) <
        1.2 * tokens_per_second(testing::run("qwen3-8b", machine, 3, 16), machine));
  // Accumulation spares stage 1 its reductions, not stage 2.
  const Cluster slow = cluster("a100-sxm4-80gb", 8, 4, 12.5);
  CHECK(tokens_per_second(testing::run("qwen3-8b", slow, 1, 2, 16), slow) >
        1.5 * tokens_per_second(testing::run("qwen3-8b", slow, 2, 2, 16), slow));
  // More nodes never speed a GPU up, a slower network slows it down.
  double last = 1e9;
  for (const std::int64_t nodes : {1, 2, 8, 64, 512}) {
    const Cluster c = cluster("h100-sxm5-80gb", 8, nodes, 400);
    const double now = tokens_per_second(testing::run("qwen3-32b", c, 3, 4), c);
    CHECK(now <= last * 1.02);  // a little may be won: the optimizer's share shrinks
    last = now;
  }
  CHECK(tokens_per_second(testing::run("qwen3-32b", cluster("h100-sxm5-80gb", 8, 8, 12.5), 3, 4),
                          cluster("h100-sxm5-80gb", 8, 8, 12.5)) <
        0.7 * tokens_per_second(testing::run("qwen3-32b", cluster("h100-sxm5-80gb", 8, 8, 400), 3, 4),
                                cluster("h100-sxm5-80gb", 8, 8, 400)));
}

TEST_CASE("uncertainty names its largest cause", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 2);
  Run r = testing::run("qwen3-8b", machine, 3, 1);
  const StepTime z3 = predict_step_time(r, machine, {});
  CHECK(uncertainty_text(z3).find("the host's time differs between machines") != std::string::npos);
  CHECK(z3.relative_error > 0.15);
  const StepTime z2 = predict_step_time(testing::run("qwen3-8b", machine, 2, 4, 4), machine, {});
  CHECK(z2.relative_error < 0.12);
  r.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
  CHECK(uncertainty_text(predict_step_time(r, machine, {})).find("CPU Adam") != std::string::npos);
  TimeCoefficients calibrated;
  calibrated.host_zero3_module_s.relative_error = calibrated.host_zero3_gather_s.relative_error = 0.05;
  calibrated.unexplained_share.value = 0.03;
  CHECK(predict_step_time(testing::run("qwen3-8b", machine, 3, 1), machine, calibrated).relative_error <
        0.5 * z3.relative_error);
}

TEST_CASE("a host that decides is to be measured, unless it was", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 2);
  const StepTime small = predict_step_time(testing::run("qwen3-8b", machine, 3, 1), machine, {});
  REQUIRE(small.limiter == Limiter::Host);
  CHECK(host_note(small, {})->code == "host-decides");
  TimeCoefficients calibrated;
  calibrated.host_zero3_module_s.value *= 0.9;
  CHECK_FALSE(host_note(small, calibrated));
  CHECK_FALSE(host_note(predict_step_time(testing::run("qwen3-8b", machine, 2, 4), machine, {}), {}));
}
