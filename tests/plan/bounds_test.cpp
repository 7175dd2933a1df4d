#include "plan/bounds.h"

#include "plan/shard.h"
#include "step/simulation.h"
#include "tests/catch.h"
#include "tests/plan/random_run.h"

using namespace zplan;

TEST_CASE("the simulated peak is never below the closed-form bound", "[plan]") {
  testing::RandomRun random(7);
  double closest = 0;
  for (int i = 0; i < 150; ++i) {
    const Run run = random.next({0, 1, 2, 3});
    const auto bound = memory_bound(shard(run.model, run.workload, run.world_size, run.rank), run.model, run.workload, run.ds,
                                    run.versions.switches);
    const auto simulated = simulate(run, Detail::Figures);
    INFO(testing::describe(run) << "\n" << text(bound.moment()) << " against " << simulated.peak.at.event);
    CHECK(bound.peak() <= simulated.peak.allocated);
    closest = std::max(closest, static_cast<double>(bound.peak().count) / static_cast<double>(simulated.peak.allocated.count));
  }
  // And it is worth having.
  CHECK(closest > 0.95);
}

TEST_CASE("parts sum to the allocated peak; reserved and the smallest capacity are not below it", "[plan]") {
  testing::RandomRun random(11);
  for (int i = 0; i < 40; ++i) {
    const Run run = random.next({0, 1, 2, 3});
    const auto s = simulate(run, Detail::Full);
    INFO(testing::describe(run));
    Bytes sum;
    for (const Bytes b : s.peak.by_component) sum += b;
    CHECK(sum == s.peak.allocated);
    CHECK(s.peak.reserved >= s.peak.allocated);
    CHECK(s.smallest_capacity >= s.peak.allocated);
    for (const auto& p : s.phases) {
      CHECK(p.figures.reserved >= p.figures.allocated);
      CHECK(p.figures.allocated_peak >= p.figures.allocated);
    }
  }
}

TEST_CASE("what a rank owns of Qwen3-8B, stages 1 and 2 with 8 ranks", "[plan]") {
  Model m;
  m.hidden = 4096, m.intermediate = 12288, m.layers = 36, m.heads = 32, m.kv_heads = 8, m.head_dim = 128;
  m.vocab = 151936, m.qk_norm = true;
  // Replays of DeepSpeed's own bookkeeping. docs/memory-model.md#zero12
  struct Row {
    std::int64_t rank, touched, largest_slice;
  };
  for (const Row& row : {Row{0, 1'024'999'936, 622'329'856}, Row{1, 1'057'007'104, 50'331'648},
                         Row{2, 1'065'395'456, 50'331'648}, Row{3, 1'082'180'864, 50'331'648},
                         Row{4, 1'057'007'104, 50'331'648}, Row{7, 1'058'566'656, 622'329'856}}) {
    INFO("rank " << row.rank);
    const auto s = shard(m, Workload{}, 8, row.rank);
    CHECK(s.flat_part == 1'023'841'920);
    CHECK(s.touched == row.touched);
    CHECK(s.largest_slice == row.largest_slice);
  }
  CHECK(worst_shard(m, Workload{}, 8).rank == 3);
}
