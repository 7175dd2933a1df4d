// Claims of the search about strategies that it discards, held against exact peaks across the main job's own space.
#include <algorithm>
#include <cstdint>

#include "plan/family.h"
#include "plan/memory_check.h"
#include "step/composed_peak.h"
#include "tests/catch.h"
#include "tests/plan/small_question.h"

using namespace zplan;

namespace {

// Qwen3-8B on four GPUs of 40 GB: 277,800 strategies, with expandable segments and without.
Question main_job() {
  Question q = testing::small_question(GiB(38));
  auto& m = q.base.model;
  m.name = "Qwen3-8B";
  m.hidden = 4096, m.intermediate = 12288, m.layers = 36, m.heads = 32, m.kv_heads = 8, m.head_dim = 128;
  m.vocab = 151936, m.tied_embeddings = false;
  q.base.workload.seq_len = 2048;
  q.global_batch = 64;
  q.axes = default_axes(q.base, q.cluster, q.global_batch);
  q.axes.expandable_segments = {true};
  return q;
}

}  // namespace

TEST_CASE("no bound of the main job's strategies is above what they have live", "[plan]") {
  const Question q = main_job();
  const Shard shard = worst_shard(q.base.model, q.base.workload, q.base.world_size);
  const auto all = families(q, shard);
  PeakComposer composer;
  Run run = q.base;
  run.rank = shard.rank;
  std::int64_t evaluated = 0;
  double closest = 0;
  // Every fifth family, and in it every setting whose number is a multiple of 31: all axes have another length.
  for (std::size_t f = 0; f < all.size(); f += 5) {
    Strategy s = all[f].strategy;
    const KnobGrid grid(q.axes, s.ds.zero.stage);
    for (std::int64_t i = 0; i < grid.size(); i += grid.size() < 100 ? 1 : 31) {
      grid.set(i, s);
      apply(s, run);
      const auto bound = memory_bound(shard, q.base.model, s.workload, s.ds, q.base.versions.switches);
      const auto live = composer.live(representative(run));
      REQUIRE(live);
      INFO(name(s) << ", setting " << i << ", " << text(bound.moment()) << " against " << name(live->phase));
      CHECK(bound.peak() <= live->bytes);
      CHECK(all[f].least_memory.peak() <= live->bytes);
      closest = std::max(closest, static_cast<double>(bound.peak().count) / static_cast<double>(live->bytes.count));
      ++evaluated;
    }
  }
  CHECK(evaluated > 300);
  CHECK(closest > 0.99);
}
