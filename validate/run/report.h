// Predicted beside measured, at the end of a run.
#pragma once

#include <string>

#include "run/plan.h"

namespace zplan::trainer {

// Reads the record at plan.out, simulates its inputs and compares the last step phase by phase.
// Where there is nothing to compare with (the CPU, a card zplan does not know), says so.
std::string report(const Plan& plan, const std::string& data);

}  // namespace zplan::trainer
