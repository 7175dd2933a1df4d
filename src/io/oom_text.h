// An explained out-of-memory message for people and for other programs (zplan.oom/1). docs/oom.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/report.h"
#include "plan/oom.h"
#include "plan/ways_out.h"

namespace zplan {

struct OomReport {
  std::string version;      // zplan's
  Cluster cluster;
  OomExplanation explanation;
  std::vector<WayOut> ways;
  std::vector<Assumption> assumptions;
  std::vector<Note> notes;
};

std::string oom_text(const OomReport& report, const TextStyle& style);
nlohmann::ordered_json oom_json(const OomReport& report);

}  // namespace zplan
