#include "plan/fit.h"

#include <cmath>
#include <random>

#include "tests/catch.h"

using namespace zplan;

namespace {

// Times of a made-up machine: a + b·x, measured at x = 1 ... n, with a normal error of `noise` in the logarithm.
struct Line {
  double a = 2, b = 3, noise = 0.05;
  int points = 20;
  double outlier = 1;  // factor of the fifth measurement

  std::vector<double> measured(unsigned seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<double> error(0, noise);
    std::vector<double> y;
    for (int i = 1; i <= points; ++i) y.push_back((a + b * i) * std::exp(error(random)) * (i == 5 ? outlier : 1));
    return y;
  }
  Residuals residuals(unsigned seed) const {
    return [y = measured(seed), noise = noise](const std::vector<double>& v) {
      std::vector<double> r;
      for (std::size_t i = 0; i < y.size(); ++i)
        r.push_back(std::log((v[0] + v[1] * static_cast<double>(i + 1)) / y[i]) / noise);
      return r;
    };
  }
};

const std::vector<FitParameter> wide = {{"a", 1, 1, 0.01, 100}, {"b", 1, 1, 0.01, 100}};

}  // namespace

TEST_CASE("a fit recovers what the measurements were made from, within its stated errors", "[plan]") {
  const Line line;
  int within_one = 0, within_three = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Fit f = fit(wide, line.residuals(seed));
    for (const auto& [p, truth] : {std::pair{f.parameters[0], line.a}, std::pair{f.parameters[1], line.b}}) {
      REQUIRE(p.fitted());
      CHECK(p.measurements == 20);
      const double errors = std::abs(std::log(p.value / truth)) / p.relative_error;
      within_one += errors < 1 ? 1 : 0;
      within_three += errors < 3 ? 1 : 0;
    }
  }
  // Of 200: a normal error leaves 137 and 199.5 of them.
  CHECK(within_one > 110);
  CHECK(within_one < 170);
  CHECK(within_three >= 195);
}

TEST_CASE("an outlier counts nothing and moves nothing", "[plan]") {
  const double factor = GENERATE(0.01, 0.4, 3.0, 1000.0);
  Line line;
  const Fit clean = fit(wide, line.residuals(1));
  line.outlier = factor;
  const Fit spoiled = fit(wide, line.residuals(1));
  INFO(factor);
  CHECK(clean.weights[4] > 0.5);
  CHECK(spoiled.weights[4] == 0);
  for (int i : {0, 1}) {
    CHECK(spoiled.parameters[i].measurements == 19);
    CHECK(std::abs(std::log(spoiled.parameters[i].value / clean.parameters[i].value)) <
          clean.parameters[i].relative_error);
  }
}

TEST_CASE("what the measurements do not determine stays at its prior, and says why", "[plan]") {
  const Line line;
  SECTION("no effect") {
    auto parameters = wide;
    parameters.push_back({"c", 7, 0.5, 1, 50});
    const Fit f = fit(parameters, line.residuals(2));
    CHECK(f.parameters[1].fitted());
    CHECK(f.parameters[2].why == Undetermined::NoEffect);
    CHECK(f.parameters[2].value == 7);
    CHECK(f.parameters[2].relative_error == 0.5);
    CHECK(f.parameters[2].measurements == 0);
  }
  SECTION("only a product") {
    const auto y = line.measured(3);
    const Fit f = fit({{"a", 1, 1, 0.01, 100}, {"b", 1, 1.2, 0.01, 100}}, [&](const std::vector<double>& v) {
      std::vector<double> r;
      for (std::size_t i = 0; i < y.size(); ++i)
        r.push_back(std::log(v[0] * v[1] * static_cast<double>(i + 1) / y[i]) / line.noise);
      return r;
    });
    CHECK(f.parameters[0].fitted() != f.parameters[1].fitted());
    const int left = f.parameters[0].fitted() ? 1 : 0;
    CHECK(f.parameters[left].why == Undetermined::Correlated);
    CHECK(f.parameters[left].with == wide[1 - left].name);
    CHECK(f.parameters[left].value == 1);
    // What is fitted is known no better than what was held: their product alone was measured.
    CHECK(f.parameters[1 - left].relative_error > 0.9);
  }
  SECTION("measurements worse than the prior") {
    Line rough;
    rough.noise = 3;
    rough.points = 3;
    const Fit f = fit({{"a", 2, 0.1, 0.01, 100}, {"b", 3, 0.1, 0.01, 100}}, rough.residuals(4));
    for (const auto& p : f.parameters) CHECK_FALSE(p.fitted());
    CHECK(f.parameters[0].value == 2);
  }
  SECTION("a value beyond the bounds") {
    const Fit f = fit({{"a", 1, 1, 0.01, 100}, {"b", 1, 1, 0.5, 2.9}}, line.residuals(5));
    CHECK(f.parameters[1].why == Undetermined::AtBound);
    CHECK(f.parameters[1].value == 1);
  }
}

TEST_CASE("residuals wider than their noise widen the errors", "[plan]") {
  Line line;
  line.noise = 0.02;
  const Residuals told_right = line.residuals(6);
  const Fit right = fit(wide, told_right);
  const Fit boastful = fit(wide, [&](const std::vector<double>& v) {
    auto r = told_right(v);
    for (double& x : r) x *= 2;  // the noise is said to be half of what it is
    return r;
  });
  CHECK(boastful.scale == Approx(4 * right.scale).epsilon(0.3));
  CHECK(boastful.parameters[1].relative_error == Approx(right.parameters[1].relative_error).epsilon(0.3));
}
