#include <algorithm>

#include "step/engine.h"
#include "step/parameter_groups.h"
#include "step/simulate.h"
#include "step/table.h"

#include "tests/catch.h"

using namespace zplan;

namespace {

constexpr std::int64_t psi = 249'969'152;        // Qwen3-0.6B, 6 layers
constexpr std::int64_t embedding = 155'582'464;  // its largest parameter
constexpr std::int64_t part = psi / 4;
constexpr std::int64_t rotary = 2 * 256;         // inv_freq and its copy
constexpr std::int64_t dummy = 4;                // FusedAdam's overflow buffer
constexpr std::int64_t loop = 8 * 1024 + 2 * 33'554'432;  // input ids, cuBLAS of two threads

Run run_of(int stage, Precision precision = Precision::Bf16) {
  Run r;
  auto& m = r.model;
  m.model_type = "qwen3";
  m.hidden = 1024;
  m.intermediate = 3072;
  m.layers = 6;
  m.heads = 16;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.vocab = 151936;
  m.tied_embeddings = m.qk_norm = true;
  r.workload.seq_len = 1024;
  r.world_size = 4;
  r.steps = 2;
  r.ds.precision = precision;
  r.ds.zero.stage = stage;
  r.ds.zero.overlap_comm = true;
  r.ds.zero.reduce_bucket_size = 200'000'000;
  r.versions = default_versions();
  r.gpu.sm_count = 132;
  r.gpu.cublas_workspace = {33'554'432};
  r.gpu.memory_total = GiB(141);
  return r;
}

Run offloaded(Run r) {
  r.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
  return r;
}
Run fp32_accumulation(Run r) {
  r.ds.grad_accum_dtype = Precision::Fp32;
  return r;
}
Run accumulating(Run r, std::int64_t micro_steps) {
  r.ds.gradient_accumulation_steps = micro_steps;
  return r;
}
Run as_rank(Run r, std::int64_t rank, std::int64_t world_size) {
  r.rank = rank;
  r.world_size = world_size;
  return r;
}

Run on_device(Run r) {
  r.workload.load = Load::Gpu;
  return r;
}
Run in_0_16_9(Run r) {
  r.versions.deepspeed = {0, 16, 9};
  r.versions.switches = deepspeed_switches(r.versions.deepspeed);
  return r;
}

struct Requested {
  std::int64_t end = 0, peak = 0;  // live bytes as requested, at the end of the phase and at most in it
};

// Of the first phase of that kind in step `step` (-1: load and init): with accumulation, of its first micro-step.
Requested requested(const Run& run, Phase phase, std::int64_t step) {
  const auto history = simulate_events(run);
  std::vector<std::int64_t> bytes(history.blocks.size());
  std::int64_t live = 0;
  std::size_t at = 0;
  for (const auto& mark : history.phases) {
    Requested now{live, live};
    for (; at < mark.end; ++at) {
      const auto& e = history.events[at];
      if (e.action == Action::Allocate) live += bytes[static_cast<std::size_t>(e.block)] = e.bytes;
      if (e.action == Action::Free || e.action == Action::FreeRequested) live -= bytes[static_cast<std::size_t>(e.block)];
      now.peak = std::max(now.peak, live);
    }
    now.end = live;
    if (mark.phase == phase && mark.step == step) return now;
  }
  return {};
}

}  // namespace

TEST_CASE("what a rank keeps after deepspeed.initialize, stages 0-2", "[step]") {
  const auto [name, run, bytes] = GENERATE_COPY(table<std::string, Run, std::int64_t>({
      {"no ZeRO, bf16: parameters, master, states", run_of(0), 14 * psi + dummy},
      {"no ZeRO, fp32: parameters", run_of(0, Precision::Fp32), 4 * psi + dummy},
      {"stage 1: parameters, master of the partition", run_of(1), 2 * psi + 4 * part + dummy},
      {"stage 2", run_of(2), 2 * psi + 4 * part + dummy},
      {"stage 2, fp16", run_of(2, Precision::Fp16), 2 * psi + 4 * part + dummy},
      {"stage 2, fp32", run_of(2, Precision::Fp32), 4 * psi + 4 * part + dummy},
      {"stage 1, fp32 accumulation: full fp32 gradients", fp32_accumulation(run_of(1)), 6 * psi + 4 * part + dummy},
      {"stage 2, optimizer on the host: a staging buffer", offloaded(run_of(2)), 2 * psi + 2 * embedding},
      {"stage 2, 0.16.9: inv_freq in 16 bits too", in_0_16_9(run_of(2)), 2 * psi + 4 * part + dummy - rotary / 2},
      {"the same, built on the device", in_0_16_9(on_device(run_of(2))), 2 * psi + 4 * part + dummy - rotary / 2},
  }));
  INFO(name);
  CHECK(requested(run, Phase::Init, -1).end == bytes + rotary);
}

TEST_CASE("adapters in stage 3 stay fp32 since DeepSpeed 0.19.2", "[step]") {
  const auto [name, version, width] = GENERATE(table<std::string, Version, std::int64_t>({
      {"0.19.2", {0, 19, 2}, 4}, {"before", {0, 19, 1}, 2}}));
  INFO(name);
  auto run = run_of(3);
  run.workload.finetune = Finetune::Lora;
  run.versions.switches = deepspeed_switches(version);
  CHECK(adapters_stay_fp32(run.workload, run.ds, run.versions.switches) == (width == 4));
  std::int64_t adapters = 0;
  for (const auto& p : parameters(run.model, run.workload)) adapters += p.adapter() ? ceil_div(p.numel, 4) : 0;
  auto wider = run;
  wider.workload.adapter_autocast = false;  // 2 bytes in any version
  const auto end = [](const Run& r) { return requested(r, Phase::Init, -1).end; };
  CHECK(end(run) - end(wider) == (width - 2) * adapters);
}

TEST_CASE("what is live when backward starts without a loss scale, 0.16.9", "[step]") {
  // BF16_Optimizer: the mean loss, then the seed of the gradient; no division, no gradient of one.
  const auto one = in_0_16_9(fp32_accumulation(run_of(1)));
  const auto history = simulate_events(one);
  std::size_t at = 0;
  for (const auto& mark : history.phases) {
    if (mark.phase == Phase::Backward && mark.step == 0) {
      CHECK(history.events[at].bytes == 4);
      CHECK(history.events[at + 1].bytes == 4);
      CHECK(history.events[at + 2].bytes == 4 * 1024 * 151936);
      return;
    }
    at = mark.end;
  }
}

TEST_CASE("peak of deepspeed.initialize, stages 0-2", "[step]") {
  const auto [name, run, bytes] = GENERATE_COPY(table<std::string, Run, std::int64_t>({
      {"no ZeRO: zero gradients for the first step", run_of(0), 18 * psi + dummy},
      {"stage 2: the flat copy beside the parameters", run_of(2), 4 * psi + dummy},
      {"stage 2, one rank: clone and master", as_rank(run_of(2), 0, 1), 10 * psi + dummy},
  }));
  INFO(name);
  CHECK(requested(run, Phase::Init, -1).peak == bytes + rotary);
}

TEST_CASE("what a rank keeps after the first step, stages 0-2", "[step]") {
  const auto [name, run, bytes] = GENERATE_COPY(table<std::string, Run, std::int64_t>({
      {"no ZeRO", run_of(0), 14 * psi + dummy},
      {"stage 1", run_of(1), 2 * psi + 12 * part + dummy + 4},
      {"stage 2", run_of(2), 2 * psi + 12 * part + dummy + 4},
      {"stage 2, states in bf16",
       [] {
         auto r = run_of(2);
         r.ds.bf16_master_weights_and_grads = r.ds.bf16_optimizer_states = true;
         return r;
       }(), 2 * psi + 6 * part + dummy + 4},
      {"stage 2, optimizer on the host", offloaded(run_of(2)), 2 * psi + 2 * embedding},
  }));
  INFO(name);
  CHECK(requested(run, Phase::Step, 0).end == bytes + rotary + loop);
}

TEST_CASE("a step that the loss scaler skips makes no states", "[step]") {
  const auto skipping = [](Run r, std::int64_t steps) {
    r.workload.skipped_steps = steps;
    return r;
  };
  const auto fp16 = run_of(2, Precision::Fp16);
  const auto before = 2 * psi + 4 * part + dummy;
  const auto [name, run, first, second] = GENERATE_COPY(table<std::string, Run, std::int64_t, std::int64_t>({
      {"one", skipping(fp16, 1), before, before + 8 * part + 4},
      {"two", skipping(fp16, 2), before, before},
      {"before 0.17.1 the gradients of the first stay", in_0_16_9(skipping(fp16, 1)), before + 2 * embedding - rotary / 2,
       before + 2 * embedding - rotary / 2 + 8 * part + 4},
      {"of the first alone", in_0_16_9(skipping(fp16, 2)), before + 2 * embedding - rotary / 2, before + 2 * embedding - rotary / 2},
  }));
  INFO(name);
  // 0.16.9 keeps its mean loss to the end of a step.
  const auto kept = run.versions.switches.engine_keeps_losses ? 4 : 0;
  CHECK(requested(run, Phase::Step, 0).end - rotary - loop - first <= kept);
  CHECK(requested(run, Phase::Step, 1).end - rotary - loop - second <= kept);
  CHECK(requested(run, Phase::Step, 0).end - rotary - loop >= first);
  CHECK(requested(run, Phase::Step, 1).end - rotary - loop >= second);
}

TEST_CASE("peak of the second step, stages 0-2", "[step]") {
  // Rank 2 of 3: padded to a multiple of 6, it owns 60 slices; the parameters they belong to have 84,949,248 elements.
  constexpr std::int64_t third = (psi + 4) / 3, whole = 84'949'248;
  const auto [name, run, bytes] = GENERATE_COPY(table<std::string, Run, std::int64_t>({
      {"no ZeRO: 24 bytes a parameter", run_of(0), 24 * psi},
      {"stage 2, one slice: the norm in double", run_of(2), 2 * psi + 12 * part + 2 * embedding + 8 * part},
      {"stage 2, many slices: cat and cast", as_rank(run_of(2), 2, 3), 6 * third + 12 * third + 2 * whole + 6 * third},
      {"stage 2, 0.19.8, fp32 accumulation: the partition is the gradient", fp32_accumulation(run_of(2)),
       2 * psi + 12 * part + 4 * part + 8 * part},
      {"stage 2, optimizer on the host: nothing", offloaded(run_of(2)), 2 * psi + 2 * embedding},
  }));
  INFO(name);
  const auto peak = requested(run, Phase::Step, 1).peak - rotary - loop;
  CHECK(peak >= bytes);
  CHECK(peak < bytes + 8192);  // scalars
}

TEST_CASE("gradients between the micro-steps of a step, stages 0-2", "[step]") {
  const auto [name, run, bytes] = GENERATE_COPY(table<std::string, Run, std::int64_t>({
      {"no ZeRO: all of them", accumulating(run_of(0), 2), 14 * psi + 2 * psi},
      {"stage 1: all of them, and the buckets", accumulating(run_of(1), 2), 2 * psi + 4 * part + 2 * psi + 800'000'000},
      {"stage 2: those of the parameters it owns a piece of", accumulating(run_of(2), 2), 2 * psi + 4 * part + 2 * embedding},
      {"stage 2, optimizer on the host: none", offloaded(accumulating(run_of(2), 2)), 2 * psi + 2 * embedding - dummy},
  }));
  INFO(name);
  CHECK(requested(run, Phase::Step, 0).end == bytes + dummy + rotary + loop);
}

TEST_CASE("ZeRO-1/2 cuts a group's flat buffer into equal partitions", "[step]") {
  const auto run = as_rank(run_of(2), 1, 3);
  const auto all = parameters(run.model, run.workload);
  const auto groups = flat_groups(run, all);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].numel == psi);
  CHECK(groups[0].flat == psi + 4);  // a multiple of 2 * 3
  CHECK(groups[0].partition == (psi + 4) / 3);
  // The embedding spans ranks 0 and 1.
  CHECK(groups[0].slices[0].rank == 0);
  CHECK(groups[0].slices[1].parameter == 0);
  CHECK(groups[0].slices[1].rank == 1);
  CHECK(groups[0].slices[1].offset == groups[0].partition);
  CHECK(groups[0].owned_numel == groups[0].partition);
}

TEST_CASE("the HF Trainer's groups: norms and biases do not decay", "[step]") {
  auto run = run_of(2);
  run.workload.parameter_groups = 2;
  const auto all = parameters(run.model, run.workload);
  const auto groups = parameter_groups(run, all);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].size() == 6 * 4 + 1);
  std::int64_t elements = 0;
  for (const auto p : groups[1]) elements += all[static_cast<std::size_t>(p)].numel;
  CHECK(elements == 6 * (2 * 1024 + 2 * 128) + 1024);
}

TEST_CASE("thread blocks of torch's reductions to one value, 132 multiprocessors", "[step]") {
  const auto [elements, blocks] = GENERATE(table<std::int64_t, std::int64_t>({
      {1'024, 1}, {49'152, 1}, {1'048'576, 128}, {1'519'528, 186}, {62'492'288, 528}, {155'582'464, 1187}, {249'969'152, 1908}}));
  INFO(elements);
  CHECK(reduction_blocks(elements, 132) == blocks);
}

TEST_CASE("temporary storage of a radix sort of 64-bit pairs", "[step]") {
  const auto [name, pairs, bits, tile, bytes] = GENERATE(table<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t>({
      {"one tile", 2'304, 64, 4608, 1},
      {"one more", 2'305, 64, 4608, 16'384 + 1'024 + 2 * 18'688 + 256 + 255},
      {"8,192 tokens by expert (t18)", 8'192, 64, 4608, 150'015},
      {"16,384 (m123h)", 16'384, 64, 4608, 283'135},
      {"16,384 row numbers (m123h)", 16'384, 14, 4608, 270'847},
      {"8,192 row numbers (t18)", 8'192, 13, 4608, 137'727},
      {"256 rows: one pass needs no copy", 8'192, 8, 4608, 2'048 + 2'048 + 256 + 255},
      {"Ampere", 16'384, 64, 3840, 284'159},
  }));
  INFO(name);
  CHECK(radix_sort_storage(pairs, bits, tile) == bytes);
}

TEST_CASE("the optimizer on the host pins powers of two", "[step]") {
  const auto [name, run, bytes] = GENERATE_COPY(table<std::string, Run, std::int64_t>({
      // master and gradients 256 MiB each, staging 128 MiB, the largest parameter 512 MiB
      {"one micro-step", offloaded(run_of(2)), GiB(1).count + MiB(128).count},
      // and the embedding's accumulator
      {"two micro-steps", offloaded(accumulating(run_of(2), 2)), GiB(1).count + MiB(640).count},
      {"stage 1: only the boundary reduces", offloaded(accumulating(run_of(1), 2)), GiB(1).count + MiB(128).count},
      // no staging; the embedding's accumulator
      {"stage 1, 0.16.9: through accumulators all the same", in_0_16_9(offloaded(accumulating(run_of(1), 2))), GiB(1).count + MiB(512).count},
  }));
  INFO(name);
  CHECK(simulate_events(run).phases.back().host_pinned.count == bytes);
}
