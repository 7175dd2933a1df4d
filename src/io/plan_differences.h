// Two plan.json side by side: what was asked and chosen differently, and what that does to time and memory.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/files.h"

namespace zplan {

// A key that the two plans do not share the value of, as JSON text; "-" where a plan does not have it.
struct PlanDifference {
  std::string key;  // "inputs/machine/gpu", "ds_config/zero_optimization/stage"
  std::array<std::string, 2> values;
};

// A number of both plans in its unit; memory is bytes.
struct PlanFigure {
  std::string name;  // as in plan.json
  bool bytes = false;
  std::array<double, 2> values{};
};

struct PlanDifferences {
  std::array<std::string, 2> files, names;  // a name is empty where nothing fitted
  std::vector<PlanDifference> settings;
  std::vector<PlanFigure> figures;          // none unless both fit
  // The second's seconds a step over the first's, for equally many tokens; 0 unless both fit.
  double time_ratio = 0;
  bool tied = false;                        // their times differ by less than the larger uncertainty
};

// Throws InputError unless both are zplan.plan/1.
PlanDifferences plan_differences(const FileSource& files, const std::string& first, const std::string& second);

std::string plan_differences_text(const PlanDifferences& differences);
// zplan.plan-differences/1.
nlohmann::ordered_json plan_differences_json(const PlanDifferences& differences);

}  // namespace zplan
