// A single event of a simulated history: where it stands, and what is live after it.
#pragma once

#include <array>
#include <cstddef>

#include "allocator/options.h"
#include "step/component.h"
#include "step/recorder.h"
#include "step/simulation.h"
#include "units/units.h"

namespace zplan {

// Step and phase of an event, and what it allocates.
Moment moment_of(const SimulatedHistory& history, std::size_t event);

// What is live right after `event`, as the allocator counts it, by component. Memory must not run out before.
std::array<Bytes, kComponents> components_after(const SimulatedHistory& history, const AllocatorOptions& options,
                                                std::size_t event);

}  // namespace zplan
