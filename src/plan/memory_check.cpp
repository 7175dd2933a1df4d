#include "plan/memory_check.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "allocator/replay.h"
#include "spec/error.h"
#include "step/simulate.h"

namespace zplan {

Run representative(Run run) {
  auto& accumulation = run.ds.gradient_accumulation_steps;
  if (accumulation > 1) run.steps = std::min<std::int64_t>(run.steps, 2);
  accumulation = std::min<std::int64_t>(accumulation, 2);
  return run;
}

MemoryCheck check_memory(const Run& run, Bytes limit, Bytes safe_limit) {
  MemoryCheck check;
  try {
    const auto history = simulate_events(run);
    auto options = allocator_options(run);
    const auto free_of_limits = replay(history.events, options);
    check.allocated = free_of_limits.allocated_peak;
    check.reserved = free_of_limits.reserved_peak;
    check.peak_event = free_of_limits.allocated_peak_event;
    if (check.reserved <= safe_limit) {
      check.completed = check.reserved;
      return check;
    }
    for (const Bytes tried : {safe_limit, limit}) {
      if (check.allocated > tried) continue;
      options.capacity_limit = tried;
      if (replay(history.events, options).oom) continue;
      check.completed = tried;
      return check;
    }
  } catch (const InputError& error) {
    check.cannot_run = error.problem();
  } catch (const std::logic_error& error) {
    // A strategy whose events are not known cannot be judged, and so is never the plan.
    check.cannot_run = std::string("not simulated: ") + error.what();
  }
  return check;
}

}  // namespace zplan
