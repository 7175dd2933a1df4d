#include "plan/rank.h"

#include "plan/why_not.h"
#include "tests/catch.h"
#include "tests/plan/small_question.h"
#include "units/text.h"

using namespace zplan;

namespace {

StepTime parts(double matmul, double host, double relative_error = 0.1) {
  StepTime t;
  t.parts[static_cast<std::size_t>(TimePart::Matmul)] = matmul;
  t.parts[static_cast<std::size_t>(TimePart::Host)] = host;
  t.relative_error = relative_error;
  return t;
}

}  // namespace

TEST_CASE("times are the same within what steps repeat to, or where one uncertain part stands for another", "[plan]") {
  struct Row {
    const char* what;
    StepTime a, b;
    bool same;
  };
  for (const Row& row : {Row{"2.9 % apart", parts(1.0, 0), parts(1.029, 0), true}, Row{"4 % apart", parts(1.0, 0), parts(1.04, 0), false},
                         Row{"5 % apart, all of it traded for host time", parts(1.0, 0), parts(0.0, 1.05), true},
                         Row{"20 % apart, traded", parts(1.0, 0), parts(0.0, 1.2), false}}) {
    INFO(row.what);
    CHECK(same_time(row.a, row.b) == row.same);
    CHECK(same_time(row.b, row.a) == row.same);
  }
}

TEST_CASE("the chance of running out is even at the limit and falls with headroom", "[plan]") {
  CHECK(oom_probability(GiB(40), GiB(40)) == Approx(0.5));
  CHECK(oom_probability(GiB(40), GiB(40) + GiB(40) / 100) == Approx(0.1587).margin(0.001));  // one standard deviation
  CHECK(oom_probability(GiB(30), GiB(40)) < 1e-9);
  CHECK(oom_probability(GiB(40), GiB(30)) > 1 - 1e-9);
}

TEST_CASE("the plan fits by its own simulation; among ties the simpler goes first", "[plan]") {
  const Question q = testing::small_question(MiB(1400));
  const auto result = search(q);
  const auto plans = ranked(q, result);
  REQUIRE(!plans.empty());
  const auto& best = plans.front();
  CHECK(best.candidate.safe);
  CHECK(best.tied);
  Run run = applied(best.candidate.strategy, q.base);
  run.rank = result.shard.rank;
  CHECK(simulate(representative(run), Detail::Full).fits());
  for (const auto& p : plans) {
    if (!p.tied || p.oom_probability >= 0.001) continue;
    const auto complexity = [](const Plan& x) { return x.candidate.departures + 2 * static_cast<int>(offload_of(x.candidate.strategy.ds.zero)); };
    CHECK(complexity(best) <= complexity(p));
  }
  // The front is not empty and nothing on it is beaten in everything.
  CHECK(std::any_of(plans.begin(), plans.end(), [](const Plan& p) { return p.on_front; }));
}

TEST_CASE("other objectives take other plans", "[plan]") {
  Question q = testing::small_question(MiB(1900));
  q.objective = Objective::Memory;
  auto result = search(q);
  auto plans = ranked(q, result);
  REQUIRE(plans.size() > 1);
  for (const auto& p : plans) CHECK(plans.front().capacity <= p.capacity);
  q.objective = Objective::Headroom;
  result = search(q);
  plans = ranked(q, result);
  double fastest = 1e300;
  for (const auto& p : plans) fastest = std::min(fastest, p.candidate.time.total().count);
  CHECK(plans.front().candidate.time.total().count <= 1.1 * fastest);
}

TEST_CASE("where nothing fits, what would have to change is named and would fit", "[plan]") {
  Question q = testing::small_question(MiB(450));
  q.axes.offloads = {Offload::None};
  const auto result = search(q);
  REQUIRE(result.found.empty());
  const auto rejected = why_not(q, result, nullptr);
  REQUIRE(rejected.size() == 1);
  CHECK(!rejected[0].fits);
  CHECK(rejected[0].over > Bytes{});
  CHECK(!rejected[0].component.empty());
  const auto changes = what_would_fit(q, result);
  REQUIRE(!changes.empty());
  for (const auto& c : changes) CHECK(c.need <= result.budget.safe());
}

TEST_CASE("each setting of a plan that departs from the defaults says what it is for", "[plan]") {
  const Question q = testing::small_question(MiB(1150));
  const auto result = search(q);
  const auto plans = ranked(q, result);
  REQUIRE(!plans.empty());
  for (const auto& plan : plans) {
    const auto reasons = setting_reasons(q, result, plan);
    CHECK(reasons.size() == departures(plan.candidate.strategy).size());
  }
}
