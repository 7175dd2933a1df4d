// Results for other programs: zplan.simulation/1, zplan.plan/1 and zplan.comparison/1. docs/files.md#simulation
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/report.h"

namespace zplan {

nlohmann::ordered_json simulation_json(const SimulationReport& report);
nlohmann::ordered_json plan_json(const PlanReport& report);
nlohmann::ordered_json comparison_json(const ComparisonReport& report);

}  // namespace zplan
