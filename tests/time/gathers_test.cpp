// The time model's replay of the coordinator against the simulated step, which records every block.
#include "time/gathers.h"

#include <cstdio>
#include <string>

#include "step/simulate.h"
#include "tests/catch.h"
#include "tests/time/machines.h"

using namespace zplan;
using testing::cluster;

namespace {

struct Counted {
  double tensors = 0, elements = 0, copied_out = 0;
};

// What the third step's first micro-step gathers in one phase.
Counted simulated(const SimulatedHistory& h, Phase phase) {
  Counted c;
  std::size_t begin = 0;
  for (const PhaseMark& mark : h.phases) {
    if (mark.step == 2 && mark.micro_step == 0 && mark.phase == phase) {
      for (std::size_t e = begin; e < mark.end; ++e) {
        if (h.events[e].action != Action::Allocate) continue;
        const auto& label = h.labels[h.blocks[static_cast<std::size_t>(h.events[e].block)].label].text;
        const bool copied = label == "gathered parameter, copied out of its flat buffer";
        if (!copied && label != "gathered parameter") continue;
        ++c.tensors;
        c.elements += static_cast<double>(h.events[e].bytes) / 2;
        c.copied_out += copied;
      }
    }
    begin = mark.end;
  }
  return c;
}

struct Row {
  const char* model;
  std::int64_t recompute, prefetch, live, reuse;
  bool sequential;
  std::int64_t accumulation = 1;
  Finetune finetune = Finetune::Full;
};

}  // namespace

TEST_CASE("stage 3 gathers what the simulated step gathers", "[time]") {
  constexpr std::int64_t billion = 1'000'000'000, bucket = 50'000'000;
  const Row row = GENERATE(values<Row>({
      {"qwen3-8b", 1, bucket, billion, billion, false},
      {"qwen3-8b", 1, bucket, billion, billion, true},
      {"qwen3-8b", 0, bucket, billion, billion, true},
      {"qwen3-8b", 1, bucket, 200'000'000, billion, false},
      {"qwen3-8b", 1, 0, billion, billion, false},
      {"qwen3-8b", 1, bucket, billion, 0, false},
      {"qwen3-8b", 1, 0, 0, 0, false},
      {"qwen3-1.7b", 0, bucket, billion, billion, true},
      {"qwen3-1.7b", 1, bucket, billion, billion, true},
      {"qwen3-1.7b", 2, bucket, billion, billion, true},
      {"qwen3-1.7b", 0, 0, billion, billion, true},
      {"qwen3-1.7b", 0, bucket, billion, billion, false},
      {"qwen3-1.7b", 0, bucket, billion, billion, true, 2},
      {"qwen3-1.7b", 1, bucket, billion, billion, true, 2},
      {"qwen3-8b", 1, bucket, billion, billion, true, 4},
      {"qwen3-8b", 1, bucket, billion, billion, false, 4},
      // A frozen weight is let go of between its recomputation and its backward (update_recompute_parameters).
      {"qwen3-8b", 1, bucket, billion, billion, true, 1, Finetune::Lora},
      {"qwen3-8b", 0, bucket, billion, billion, true, 2, Finetune::Lora},
      {"qwen3-8b", 1, bucket, billion, billion, true, 1, Finetune::Freeze},
      {"qwen3-30b-a3b", 1, bucket, billion, billion, true},
      {"qwen3-0.6b", 0, bucket, billion, billion, true},
      {"llama-3.1-8b", 1, bucket, billion, billion, true},
      {"qwen2.5-14b", 1, bucket, billion, billion, true},
  }));
  Run r = testing::run(row.model, cluster("h200-sxm-141gb", 2), 3, 1, row.accumulation);
  r.workload.finetune = row.finetune;
  r.workload.freeze_layers = 8;
  r.workload.recompute.every = row.recompute;
  r.ds.zero.stage3_prefetch_bucket_size = row.prefetch;
  r.ds.zero.stage3_max_live_parameters = row.live;
  r.ds.zero.stage3_max_reuse_distance = row.reuse;
  r.ds.zero.stage3_allgather_sequential = row.sequential;
  const SimulatedHistory h = simulate_events(r);
  const MicroStepGathers g = micro_step_gathers(r, model_shape(r.model, r.workload));
  const Counted forward = simulated(h, Phase::Forward), backward = simulated(h, Phase::Backward);
  INFO(row.model << " every " << row.recompute << ", prefetch " << row.prefetch << ", live " << row.live << ", reuse "
                 << row.reuse << ", sequential " << row.sequential);
  std::printf("%-13s %lld %9lld %10lld %10lld %d  forward %4.0f %4.0f (%4.0f %4.0f)  backward %4.0f %4.0f (%4.0f %4.0f)\n", row.model,
              static_cast<long long>(row.recompute), static_cast<long long>(row.prefetch), static_cast<long long>(row.live),
              static_cast<long long>(row.reuse), row.sequential, g.forward.tensors, forward.tensors, g.forward.copied_out,
              forward.copied_out, g.backward.tensors, backward.tensors, g.backward.copied_out, backward.copied_out);
  // Where in a layer the modules without parameters stand moves a prefetch by a tensor or two, one of them the head where
  // nothing is reused.
  const double close = r.model.experts ? 0.08 : row.reuse == 0 ? 0.09 : 0.05;
  CHECK(g.forward.tensors == Approx(forward.tensors).epsilon(close));
  CHECK(g.forward.elements == Approx(forward.elements).epsilon(close));
  CHECK(g.backward.tensors == Approx(backward.tensors).epsilon(close));
  CHECK(g.backward.elements == Approx(backward.elements).epsilon(close));
}
