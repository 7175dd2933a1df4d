// The runs of tests/truth/runs.jsonl that were timed: real ranks over NCCL, with a loop of whole steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/timed_run.h"

namespace zplan::testing {

std::vector<Record> truth_records();
// Those with every phase and whole steps.
std::vector<TimedRun> complete_runs();
std::map<std::string, double> timed_run_tolerances();

}  // namespace zplan::testing
