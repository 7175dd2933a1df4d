// Rates of this machine, measured in seconds: what calibration needs besides the phases.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "run/plan.h"
#include "run/train.h"

namespace zplan::trainer {

// Matmul rate by shape (the model's), device copy, host to device and back, CPU Adam, collectives
// by size.
nlohmann::json measure_rates(const Plan& plan, const Rank& rank);

}  // namespace zplan::trainer
