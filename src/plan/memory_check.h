// Does a strategy fit? Its events replayed under the capacity that is really there.
#pragma once

#include <optional>
#include <string>

#include "plan/strategy.h"
#include "spec/run.h"
#include "step/simulation.h"
#include "units/units.h"

namespace zplan {

// A run that shows the same memory in fewer events: two micro-steps stand for any number above, since the second is
// the first that adds to something and the last one reduces; two such steps for three.
Run representative(Run run);

struct MemoryCheck {
  std::optional<std::string> cannot_run;  // what DeepSpeed or the simulator refuses
  Bytes allocated, reserved;              // peaks without a limit
  std::int64_t peak_event = -1;
  bool completes_within(Bytes limit) const { return completed && *completed <= limit; }
  std::optional<Bytes> completed;         // the smallest limit tried under which it completes
};

// Replays `run` without a limit and, where that reserves more, under each of `limits` (largest first) while it fails.
MemoryCheck check_memory(const Run& run, Bytes limit, Bytes safe_limit);

}  // namespace zplan
