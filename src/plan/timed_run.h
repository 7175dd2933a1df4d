// Records whose seconds say something about the step time, made ready for a fit: the ranks of one run together.
// docs/calibration.md#measurements
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/hardware.h"
#include "spec/measurement.h"
#include "spec/note.h"
#include "spec/run.h"

namespace zplan {

// One run on one machine; seconds are means over the ranks that were recorded.
struct TimedRun {
  std::string id;
  Run run;
  Cluster cluster;
  int ranks = 1;  // records it was made from
  // The last micro-step of the last step, with a synchronisation at each phase's end; from the third step on, since
  // earlier ones record the parameter trace and grow the allocator.
  std::optional<double> forward_s, backward_s, step_s;
  std::optional<double> loop_s;  // a whole step of a training loop: whole_step()
};

struct TimedRuns {
  std::vector<TimedRun> runs;  // in the order of the records
  std::vector<Note> left_out;  // records that carry seconds which cannot be used, and why
};
// Seconds of a whole step of a training loop. The first of those timed settles the allocator, which had been used with
// a synchronisation at each phase's end; of the others the median, since a shared host delays single ones, and of two
// the shorter. None where none was timed.
std::optional<Seconds> whole_step(const Record& record);

TimedRuns timed_runs(const std::vector<Record>& records);

}  // namespace zplan
