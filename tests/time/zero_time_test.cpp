// Host, communication, optimizer and offload: what each setting of DeepSpeed adds or removes.
#include "tests/catch.h"
#include "tests/time/machines.h"
#include "time/communication.h"
#include "time/gathers.h"
#include "time/host.h"
#include "time/optimizer.h"

using namespace zplan;
using testing::cluster;

namespace {
CommunicationSeconds communication(const Run& r, const Cluster& c) {
  const ModelShape shape = model_shape(r.model, r.workload);
  return communication_seconds(r, c, shape, micro_step_gathers(r, shape), {});
}
double times_gathered(const Run& r) {
  const ModelShape shape = model_shape(r.model, r.workload);
  const MicroStepGathers g = micro_step_gathers(r, shape);
  return (g.forward.elements + g.backward.elements) / static_cast<double>(shape.elements);
}
HostSeconds host(const Run& r) {
  const ModelShape shape = model_shape(r.model, r.workload);
  return host_seconds(r, shape, micro_step_gathers(r, shape), {});
}
OptimizerSeconds optimizer(const Run& r, const Cluster& c) {
  const ModelShape shape = model_shape(r.model, r.workload);
  return optimizer_seconds(r, c, shape, micro_step_gathers(r, shape),
                           gpu_rates(r.gpu, r.ds.precision, r.workload.attention, {}), {});
}
}  // namespace

// Gathered elements of a micro-step over all elements. gathers_test.cpp holds the counts against the simulated step.
TEST_CASE("how often stage 3 gathers a parameter, Qwen3-8B with checkpointing", "[time]") {
  struct Row {
    const char* name;
    std::int64_t live, reuse, prefetch;
    double expected;
  };
  constexpr std::int64_t billion = 1'000'000'000;
  const std::vector<Row> rows = {
      {"defaults", billion, billion, 50'000'000, 1.900},
      {"max_live 2e8", 200'000'000, billion, 50'000'000, 1.924},
      {"prefetch 0", billion, billion, 0, 1.924},
      {"prefetch 0, reuse 0, live 0", 0, 0, 0, 2.627},
  };
  const Cluster machine = cluster("h200-sxm-141gb", 8);
  for (const auto& row : rows) {
    Run r = testing::run("qwen3-8b", machine, 3, 1);
    r.ds.zero.stage3_max_live_parameters = row.live;
    r.ds.zero.stage3_max_reuse_distance = row.reuse;
    r.ds.zero.stage3_prefetch_bucket_size = row.prefetch;
    INFO(row.name);
    CHECK(times_gathered(r) == Approx(row.expected).epsilon(0.015));
  }
  CHECK(times_gathered(testing::run("qwen3-0.6b", machine, 3, 1)) == Approx(1).epsilon(0.01));  // all of it stays gathered
}

TEST_CASE("which collectives run when", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 8);
  const auto of = [&](int stage) { return communication(testing::run("qwen3-8b", machine, stage, 1, 4), machine); };
  CHECK(of(0).backward == 0);
  CHECK(of(0).boundary_backward > 0);
  CHECK(of(0).step == 0);
  CHECK(of(1).boundary_backward > 0);  // all-reduce at the boundary, then the gather
  CHECK(of(1).step > 0);
  CHECK(of(2).backward == Approx(of(1).boundary_backward));  // the same all-reduce, but in every micro-step
  CHECK(of(2).boundary_backward == 0);
  CHECK_FALSE(of(2).overlapped);       // overlap_comm is off below stage 3 unless asked for
  CHECK(of(3).overlapped);
  CHECK(of(3).forward > 0);
  CHECK(of(3).backward > of(3).forward);  // gathered again and scattered
  CHECK(communication(testing::run("qwen3-8b", cluster("h200-sxm-141gb", 1), 3, 1), cluster("h200-sxm-141gb", 1))
            .forward == 0);
}

TEST_CASE("settings that change the traffic", "[time]") {
  const Cluster machine = cluster("h100-sxm5-80gb", 8, 4, 50);
  const Run base = testing::run("qwen3-8b", machine, 3, 1);
  const auto plain = communication(base, machine);
  Run hpz = base;
  hpz.ds.zero.zero_hpz_partition_size = 8;
  CHECK(communication(hpz, machine).backward < 0.7 * plain.backward);  // the second gather stays in the node
  CHECK(communication(hpz, machine).forward == plain.forward);
  Run int8 = base;
  int8.ds.zero.zero_quantized_weights = true;
  CHECK(communication(int8, machine).forward == Approx(plain.forward / 2).epsilon(0.10));  // the latency stays
  Run small = base;
  small.ds.zero.stage3_prefetch_bucket_size = 1'000'000;
  CHECK(communication(small, machine).forward > plain.forward);  // every tensor by itself: latency
}

TEST_CASE("stage 3's hooks follow modules and gathers, not sizes", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 2);
  const Run z3 = testing::run("qwen3-8b", machine, 3, 1), z2 = testing::run("qwen3-8b", machine, 2, 1);
  CHECK(host(z3).forward > 5 * host(z2).forward);
  CHECK(host(testing::run("qwen3-8b", machine, 3, 16)).forward == host(z3).forward);
  Run lora = z3;  // 43 modules a layer for 15, and adapters to gather besides
  lora.workload.finetune = Finetune::Lora;
  CHECK(host(lora).forward > 2 * host(z3).forward);
  Run leaf = z3;
  leaf.ds.zero.stage3_module_granularity_threshold = 1'000'000'000;
  CHECK(host(leaf).forward < 0.5 * host(z3).forward);
}

TEST_CASE("the optimizer step on the GPU, measured on H200", "[time]") {
  // FusedAdam, norm, cast and gather; 4.1e9 and 2.05e9 elements a rank (docs/time-model.md#optimizer).
  const auto seconds = [](std::int64_t ranks) {
    const Cluster machine = cluster("h200-sxm-141gb", ranks);
    const Run r = testing::run("qwen3-8b", machine, 3, 1);
    return optimizer(r, machine).gpu + host(r).step + communication(r, machine).step;
  };
  CHECK(seconds(2) == Approx(0.117).epsilon(0.10));
  CHECK(seconds(4) == Approx(0.074).epsilon(0.10));
}

// Worked in docs/time-model.md#optimizer.
TEST_CASE("what the GPU's step does for a parameter besides Adam", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 2);
  const auto of = [&](int stage, Precision precision) {
    Run r = testing::run("qwen3-8b", machine, stage, 1);
    r.ds.precision = precision;
    return optimizer_traffic(r);
  };
  CHECK(of(3, Precision::Bf16).adam_bytes == 28);
  CHECK(of(3, Precision::Bf16).around == Traffic{8 + 8 + 6, 3});      // norm, clipping, the model's copy; three conversions
  CHECK(of(3, Precision::Fp16).around == Traffic{4 + 8 + 8 + 6, 3});  // overflow is looked for
  CHECK(of(2, Precision::Bf16).around == Traffic{4 + 8 + 8 + 6, 3});
  CHECK(of(0, Precision::Bf16).around == Traffic{4 + 4 + 8 + 6, 2});
  CHECK(of(0, Precision::Fp32).around == Traffic{4 + 8, 0});
}

TEST_CASE("CPU Adam is bound by threads or by the host's memory, and by nothing that runs beside it", "[time]") {
  const Cluster machine = cluster("h200-sxm-141gb", 8);
  Run r = testing::run("qwen3-8b", machine, 3, 1);
  r.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
  const double owned = 8'190'735'360.0 / 8;
  r.cpu_threads = 16;
  CHECK(optimizer(r, machine).cpu == Approx(owned * 42 / (225e9 / 8)));
  r.cpu_threads = 1;  // torchrun's OMP_NUM_THREADS when nobody sets it
  CHECK(optimizer(r, machine).cpu == Approx(owned * 42 / 15e9));
  const Cluster one_socket = cluster("h200-sxm-141gb", 2);  // two ranks measured 1.0e9 to 1.1e9 each
  r.cpu_threads = 16;
  CHECK(optimizer(r, one_socket).cpu == Approx(owned * 42 / (225e9 / 2 / 2)));
  CHECK(optimizer(r, machine).gpu == 0);
  CHECK(optimizer(r, machine).copy_up > 0);
  r.ds.zero.offload_param.device = OffloadDevice::Cpu;
  CHECK(optimizer(r, machine).copy_up == 0);  // they are on the host already
  CHECK(optimizer(r, machine).forward_copies > 0);
  r.ds.zero.offload_optimizer.device = OffloadDevice::Nvme;
  CHECK(optimizer(r, machine).nvme > optimizer(r, machine).cpu);
}
