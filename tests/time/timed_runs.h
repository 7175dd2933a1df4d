// The runs of tests/truth/runs.jsonl that were timed: real ranks over NCCL, with a loop of whole steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "spec/hardware.h"
#include "spec/run.h"

namespace zplan::testing {

struct TimedRun {
  std::string id;
  Run run;
  Cluster cluster;
  double forward_s = 0, backward_s = 0, step_s = 0;  // third step, the last micro-step
  double loop_s = 0;                                 // last step of the loop
};
struct TimedRuns {
  std::vector<TimedRun> runs;
  std::map<std::string, double> tolerances;
};
TimedRuns timed_runs();

}  // namespace zplan::testing
