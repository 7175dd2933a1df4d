#include "plan/comparison.h"

#include "tests/catch.h"

using namespace zplan;

namespace {

Comparison with_error(const char* id, double allocated) {
  Comparison c;
  c.id = id;
  c.errors[static_cast<std::size_t>(Quantity::AllocatedPeak)] = allocated;
  c.outcome_right = true;
  return c;
}

}  // namespace

TEST_CASE("a summary counts sizes for mean, median and worst, and signs for the bias", "[plan]") {
  auto wrong = with_error("d", 0.00);
  wrong.outcome_right = false;
  Comparison failed;
  failed.id = "e";
  failed.error = "no such model";
  const auto s = summarize({with_error("a", 0.02), with_error("b", -0.04), with_error("c", 0.01), wrong, failed});
  const auto& q = s.quantities[static_cast<std::size_t>(Quantity::AllocatedPeak)];
  CHECK(q.runs == 4);
  CHECK(q.mean == Approx(0.0175));
  CHECK(q.median == Approx(0.015));
  CHECK(q.bias == Approx(-0.0025));
  CHECK(q.worst == Approx(-0.04));
  CHECK(q.worst_id == "b");
  CHECK(s.outcomes_right == 3);
  CHECK(s.wrong == std::vector<std::string>{"d"});
  CHECK(s.failed == 1);
}

TEST_CASE("a tolerance is exceeded above it, not at it, and when nothing was measured", "[plan]") {
  const auto s = summarize({with_error("a", 0.02), with_error("b", -0.04)});
  using T = std::vector<Tolerance>;
  CHECK(exceeded(s, T{{Quantity::AllocatedPeak, 0.03, 0.04}}).empty());
  CHECK(exceeded(s, T{{Quantity::AllocatedPeak, 0.0299, {}}}) == std::vector<std::string>{"allocated_peak: mean 3.00 %, tolerated 2.99 %"});
  CHECK(exceeded(s, T{{Quantity::AllocatedPeak, {}, 0.0399}}) == std::vector<std::string>{"allocated_peak: worst -4.00 % (b), tolerated 3.99 %"});
  CHECK(exceeded(s, T{{Quantity::StepSeconds, 1.0, {}}}) == std::vector<std::string>{"step_seconds: no record has it"});
}
