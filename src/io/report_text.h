// Results for people: one screen each, GiB with one decimal, colours only where the terminal shows them.
#pragma once

#include <string>

#include "io/report.h"

namespace zplan {

std::string simulation_text(const SimulationReport& report, const TextStyle& style);
std::string plan_text(const PlanReport& report, const TextStyle& style);
std::string comparison_text(const ComparisonReport& report, const TextStyle& style);

}  // namespace zplan
