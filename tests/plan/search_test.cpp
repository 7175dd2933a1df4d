#include "plan/search.h"

#include <algorithm>

#include "plan/family.h"
#include "tests/catch.h"
#include "tests/plan/small_question.h"

using namespace zplan;

namespace {

std::vector<Candidate> exhaustive(const Question& q) {
  std::vector<Candidate> all;
  const auto shard = worst_shard(q.base.model, q.base.workload, q.base.world_size);
  const auto limits = budget(q.base);
  for (const auto& f : families(q, shard)) {
    const KnobGrid grid(q.axes, f.strategy.ds.zero.stage);
    for (std::int64_t i = 0; i < grid.size(); ++i) {
      Candidate c;
      c.strategy = f.strategy;
      grid.set(i, c.strategy);
      Run run = applied(c.strategy, q.base);
      run.rank = shard.rank;
      c.time = predict_step_time(run, q.cluster, q.coefficients);
      c.memory = check_memory(representative(run), limits.limit(), limits.safe());
      if (c.memory.completes_within(limits.safe())) all.push_back(c);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("no strategy of a small space that fits is faster than the one found", "[plan]") {
  for (const auto for_torch : {MiB(1900), MiB(1400), MiB(1150)}) {
    const Question q = testing::small_question(for_torch);
    const auto found = search(q);
    const auto every = exhaustive(q);
    INFO(for_torch.count << " bytes, " << every.size() << " strategies fit");
    REQUIRE(!every.empty());
    REQUIRE(!found.found.empty());
    const auto fastest = std::min_element(every.begin(), every.end(), [](const Candidate& a, const Candidate& b) {
      return a.time.total() < b.time.total();
    });
    // Settings within 3 % of each other are taken by simplicity.
    CHECK(found.found.front().time.total().count <= 1.03 * fastest->time.total().count);
  }
}

TEST_CASE("the search does not depend on the number of threads", "[plan]") {
  Question q = testing::small_question(MiB(1400));
  std::vector<SearchResult> results;
  for (const int threads : {1, 2, 5}) {
    q.threads = threads;
    results.push_back(search(q));
  }
  for (const auto& r : results) {
    REQUIRE(r.found.size() == results[0].found.size());
    for (std::size_t i = 0; i < r.found.size(); ++i) CHECK(r.found[i].strategy == results[0].found[i].strategy);
    CHECK(r.counts.simulated == results[0].counts.simulated);
  }
}

TEST_CASE("every strategy of the space is accounted for", "[plan]") {
  const Question q = testing::small_question(MiB(1400));
  const auto r = search(q);
  std::int64_t in_groups = 0;
  for (const auto& g : r.groups) in_groups += g.strategies;
  CHECK(in_groups == r.counts.strategies);
  CHECK(r.counts.discarded_by_bound + r.counts.discarded_by_host + r.counts.discarded_by_time <= r.counts.strategies);
}

TEST_CASE("a bound that frugal knobs reach is below that of every other setting", "[plan]") {
  const Question q = testing::small_question(MiB(3900));
  const auto shard = worst_shard(q.base.model, q.base.workload, q.base.world_size);
  for (const auto& f : families(q, shard)) {
    const KnobGrid grid(q.axes, f.strategy.ds.zero.stage);
    Run run = q.base;
    for (std::int64_t i = 0; i < grid.size(); ++i) {
      Strategy s = f.strategy;
      grid.set(i, s);
      INFO(name(s) << " setting " << i);
      CHECK(f.least_memory.peak() <= memory_bound(shard, q.base.model, s.workload, s.ds, q.base.versions.switches).peak());
      apply(s, run);
      CHECK(f.least_time <= predict_step_time(run, q.cluster, q.coefficients).total());
    }
  }
}

TEST_CASE("without enough host memory nothing is offloaded", "[plan]") {
  Question q = testing::small_question(MiB(1400));
  q.axes.offloads = {Offload::Optimizer};
  q.max_host_ram = MiB(64);
  const auto r = search(q);
  CHECK(r.found.empty());
  CHECK(r.counts.discarded_by_host > 0);
  for (const auto& g : r.groups) CHECK((g.host_short > Bytes{} || g.nearest));
}
