#include "plan/oom.h"

#include "allocator/replay.h"
#include "plan/ways_out.h"
#include "step/simulate.h"
#include "tests/catch.h"
#include "tests/plan/small_question.h"

using namespace zplan;

namespace {

Run small_run() {
  Run run = testing::small_question(GiB(8)).base;
  run.ds.zero.stage = 3;
  run.ds.zero.overlap_comm = true;
  run.ds.train_micro_batch_size_per_gpu = 4;
  return run;
}

// Two decimals of a unit, as a message prints them.
PrintedBytes printed(Bytes b) {
  const std::int64_t unit = b >= GiB(1) ? GiB(1).count : b >= MiB(1) ? MiB(1).count : 1024;
  const std::int64_t hundredths = (b.count * 100 + unit / 2) / unit;
  return {Bytes{hundredths * unit / 100}, Bytes{unit / 200 + 2}};
}

// What PyTorch would say of a simulated run that ran out under a limit.
OomMessage message_of(const OutOfMemory& oom, Bytes limit) {
  OomMessage m;
  m.tried = printed(oom.segment);
  m.allocated = printed(oom.allocated);
  m.unallocated = printed(oom.unallocated()).value;
  m.allowed = limit;
  m.free = GiB(100);
  return m;
}

}  // namespace

TEST_CASE("a run that ran out under any limit is explained by the request that failed", "[plan]") {
  Run run = small_run();
  const auto history = simulate_events(run);
  auto options = allocator_options(run);
  const auto peak = replay(history.events, options).reserved_peak;
  int ran_out = 0;
  for (int percent = 30; percent <= 95; percent += 5) {
    const Bytes limit = peak * percent / 100;
    options.capacity_limit = limit;
    const auto oom = replay(history.events, options).oom;
    if (!oom) continue;
    ++ran_out;
    INFO(percent << " %");
    const auto x = explain(message_of(*oom, limit), run);
    REQUIRE(x.match);
    CHECK(x.match->runs_out);
    run.capacity_limit = limit;
    const auto simulated = simulate(run, Detail::Figures);
    REQUIRE(simulated.oom);
    CHECK(x.match->at.step == simulated.oom->at.step);
    CHECK(x.match->at.phase == simulated.oom->at.phase);
    CHECK(x.match->at.event == simulated.oom->at.event);
    CHECK(x.match->requested == oom->requested);
    CHECK(x.fragmentation == (x.message.allocated.value + x.message.tried.value <= limit));
    Bytes live;
    for (const Bytes b : x.match->live) live += b;
    CHECK(live == x.match->allocated);
  }
  CHECK(ran_out >= 8);
}

TEST_CASE("a message the simulation knows nothing of is not explained, and the likely reasons are named", "[plan]") {
  const Run run = small_run();
  const auto peak = simulate(run, Detail::Figures).peak.allocated;
  const auto [name, tried, allocated, others, reason] =
      GENERATE_COPY(table<const char*, Bytes, Bytes, Bytes, const char*>({
          {"more than it ever has", MiB(2), peak * 2, Bytes{}, "more than this configuration ever has"},
          {"no such request", MiB(7777), peak / 2, Bytes{}, "no tensor of this configuration needs 7.59 GiB"},
          {"others on the GPU", MiB(7777), peak / 2, GiB(3), "other processes had 3.0 GiB of the GPU"},
      }));
  INFO(name);
  OomMessage m;
  m.tried = printed(tried);
  m.allocated = printed(allocated);
  m.others = others;
  m.free = MiB(1);
  const auto x = explain(m, run);
  CHECK(!x.match);
  bool named = false;
  for (const auto& r : x.reasons) named = named || r.find(reason) != std::string::npos;
  CHECK(named);
}

TEST_CASE("the rank that the log names is the one simulated", "[plan]") {
  OomMessage m;
  m.tried = printed(MiB(7777));
  m.allocated = printed(GiB(1));
  m.rank = 3;
  CHECK(explain(m, small_run()).run.rank == 3);
  m.rank = 17;  // of another world
  CHECK(explain(m, small_run()).run.rank == 0);
}

TEST_CASE("every way out completes under the limit that the run did not fit into", "[plan]") {
  const auto q = testing::small_question(GiB(8));
  Run run = small_run();
  const auto history = simulate_events(run);
  const Bytes limit = replay(history.events, allocator_options(run)).allocated_peak * 8 / 10;
  const auto ways = ways_out(run, q.cluster, limit, TimeCoefficients{});
  CHECK(ways.size() >= 3);
  for (const auto& w : ways) {
    INFO(w.text);
    Run changed = applied(w.strategy, run);
    changed.capacity_limit = limit;
    CHECK(!simulate(changed, Detail::Figures).oom);
    CHECK(w.need <= limit);
    CHECK(!w.text.empty());
  }
  for (std::size_t i = 1; i < ways.size(); ++i) {
    CHECK(ways[i - 1].by_margin >= ways[i].by_margin);
    if (ways[i - 1].by_margin == ways[i].by_margin) CHECK(*ways[i - 1].slower <= *ways[i].slower * 1.03);
  }
}

TEST_CASE("where nothing helps there is no way out", "[plan]") {
  const auto q = testing::small_question(GiB(8));
  CHECK(ways_out(small_run(), q.cluster, MiB(1), TimeCoefficients{}).empty());
}
