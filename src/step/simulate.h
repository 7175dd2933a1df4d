// One rank's training: load, deepspeed.initialize, steps of forward, backward and step, as allocator events.
#pragma once

#include "spec/run.h"
#include "step/recorder.h"

namespace zplan {

// The events of `run`. Throws InputError where a combination cannot run or is not simulated.
SimulatedHistory simulate_events(const Run& run);

}  // namespace zplan
