// Fits what physics leaves open in the time model to measurements, says how well that predicts runs it did not see,
// and which run would determine what is left open. docs/calibration.md
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/fit.h"
#include "plan/timed_run.h"
#include "time/coefficients.h"

namespace zplan {

// What was measured together and is left out together: the phases of one run, or one list of micro-measurements.
struct MeasuredGroup {
  std::string name;
  std::function<std::vector<double>(const TimeCoefficients&)> predict;  // seconds, as many as `seconds`
  std::vector<double> seconds;
  std::vector<double> noise;         // relative standard error of each
  std::optional<std::size_t> whole;  // which of them is a whole step: what the errors are stated for
};

MeasuredGroup measured_group(const TimedRun& run);

struct CalibratedCoefficient {
  std::string name, unit;
  Coefficient prior, value;  // value: the prior where it was not fitted
  std::int64_t measurements = 0;
  bool fitted = false;
  std::string why_not;        // "no measurement depends on it"; empty where fitted
  std::string determined_by;  // the run that would determine it; empty where fitted
  friend bool operator==(const CalibratedCoefficient&, const CalibratedCoefficient&) = default;
};

// A whole step of one run: predicted / measured - 1.
struct StepErrors {
  std::string id;
  double measured_s = 0;
  double before = 0, after = 0;  // from the priors; with all runs in the fit
  double left_out = 0;           // fitted to the other runs
  bool outlier = false;          // counted little or nothing in the fit
};

struct TimeCalibration {
  TimeCoefficients coefficients;             // to predict with from now on
  std::vector<CalibratedCoefficient> table;  // one row a coefficient, in the order of coefficient_table()
  std::vector<StepErrors> steps;
  double mean_before = 0, mean_after = 0, mean_left_out = 0;  // of the absolute errors of `steps`
  std::int64_t measurements = 0;
};

// The values a fit may give: so many errors of the prior to either side, and no share above the whole.
std::pair<double, double> coefficient_bounds(const CoefficientEntry& entry);

// Without groups: every coefficient at its prior.
TimeCalibration calibrate_time(const std::vector<MeasuredGroup>& groups);

}  // namespace zplan
