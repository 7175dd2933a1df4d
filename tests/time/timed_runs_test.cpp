// Predicted against measured steps of DeepSpeed itself. The tolerances are data: tolerances.json.
#include "tests/time/timed_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/catch.h"
#include "tests/time/fit.h"
#include "time/step_time.h"

using namespace zplan;
using namespace zplan::testing;

namespace {

struct Score {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double error) {
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    ++count;
  }
  double mean() const { return sum / count; }
};

double error(const TimedRun& t, const TimeCoefficients& c) {
  return predict_step_time(t.run, t.cluster, c).total().count / t.loop_s - 1;
}

// What a calibration on one machine can tell apart.
const std::vector<std::string> calibrated = {
    "matmul_fraction", "memory_fraction",     "host_operator",    "host_zero3_module", "host_zero3_gather",
    "host_zero3_copy_out", "host_zero3_gradient", "host_step_tensor", "overlap_loss",      "cpu_adam_thread"};

}  // namespace

TEST_CASE("steps of DeepSpeed are predicted without and with calibration on other runs", "[time]") {
  const auto data = timed_runs();
  REQUIRE(data.runs.size() >= 12);
  Score prior, cross;
  std::printf("%-5s %9s %11s %7s %13s %7s  %s\n", "run", "measured", "from prior", "error", "left out", "error",
              "limiter (from prior)");
  for (const auto& left_out : data.runs) {
    std::vector<TimedRun> others;
    std::copy_if(data.runs.begin(), data.runs.end(), std::back_inserter(others),
                 [&](const TimedRun& t) { return t.id != left_out.id; });
    const TimeCoefficients fit = fitted(others, calibrated);
    const StepTime p = predict_step_time(left_out.run, left_out.cluster, {});
    const double before = error(left_out, {}), after = error(left_out, fit);
    prior.add(before);
    cross.add(after);
    std::printf("%-5s %7.3f s %9.3f s %+6.1f%% %11.3f s %+6.1f%%  %s\n", left_out.id.c_str(), left_out.loop_s,
                p.total().count, 100 * before, left_out.loop_s * (1 + after), 100 * after,
                limiter_text(p, left_out.run).c_str());
  }
  std::printf("mean error: %.1f%% from the prior, %.1f%% with coefficients fitted on the other runs\n",
              100 * prior.mean(), 100 * cross.mean());
  CHECK(prior.mean() <= data.tolerances.at("uncalibrated_mean"));
  CHECK(cross.mean() <= data.tolerances.at("cross_validated_mean"));
  CHECK(prior.worst <= data.tolerances.at("worst"));
  CHECK(cross.worst <= data.tolerances.at("worst"));
}

TEST_CASE("the phases of stage 2 follow from the GPU's data sheet alone", "[time]") {
  for (const auto& t : timed_runs().runs) {
    if (t.run.ds.zero.stage != 2) continue;
    INFO(t.id);
    const StepTime p = predict_step_time(t.run, t.cluster, {});
    CHECK(p.forward_s == Approx(t.forward_s).epsilon(0.06));
    CHECK(p.last_backward_s == Approx(t.backward_s).epsilon(0.12));
    CHECK(p.step_s == Approx(t.step_s).epsilon(0.12));
  }
}

TEST_CASE("the stated error covers what was measured", "[time]") {
  double squares = 0;
  int count = 0;
  for (const auto& t : timed_runs().runs) {
    const StepTime p = predict_step_time(t.run, t.cluster, {});
    const double in_errors = std::log(p.total().count / t.loop_s) / p.relative_error;
    squares += in_errors * in_errors;
    ++count;
    INFO(t.id << " " << uncertainty_text(p));
    CHECK(std::abs(in_errors) < 3);
  }
  CHECK(std::sqrt(squares / count) < 1.5);  // neither boastful
  CHECK(std::sqrt(squares / count) > 0.4);  // nor empty
}
