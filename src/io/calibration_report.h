// What zplan calibrate says: text, and zplan.calibration/1. docs/calibration.md, docs/files.md#calibration
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/report.h"
#include "plan/calibrate.h"
#include "plan/profile.h"
#include "plan/residual.h"
#include "spec/note.h"

namespace zplan {

struct CalibrationReport {
  std::string version;  // zplan's
  std::string gpu;      // as people call it: "H200 (SXM)"
  Profile profile;
  TimeCalibration time;
  std::vector<CalibratedCoefficient> process;
  std::int64_t compared = 0;               // records simulated for the residual
  std::optional<MemoryResidual> residual;  // none: every phase of every run agrees
  std::vector<Note> notes;
  std::string out;  // the file written; empty: none
};

std::string calibration_text(const CalibrationReport& report, const TextStyle& style);
nlohmann::ordered_json calibration_json(const CalibrationReport& report);

}  // namespace zplan
