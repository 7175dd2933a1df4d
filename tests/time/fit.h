// Coefficients fitted to timed runs: least squares in the logarithms, each coefficient held by its prior error.
#pragma once

#include <string>
#include <vector>

#include "tests/time/timed_runs.h"
#include "time/coefficients.h"

namespace zplan::testing {

TimeCoefficients fitted(const std::vector<TimedRun>& runs, const std::vector<std::string>& names);

}  // namespace zplan::testing
