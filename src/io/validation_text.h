// Predicted against measured for people, phase by phase and by component: what `zplan validate` prints.
#pragma once

#include <string>
#include <vector>

#include "io/report_text.h"
#include "spec/measurement.h"

namespace zplan {

// `records`: those that report.runs were made from, in the same order; phases and components are those of the first.
std::string validation_text(const ComparisonReport& report, const std::vector<Record>& records,
                            const std::vector<Tolerance>& tolerances, const TextStyle& style);

}  // namespace zplan
