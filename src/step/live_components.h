// A simulated history walked event by event: what is live after each, as the allocator counts it, by component.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "allocator/walk.h"
#include "step/component.h"
#include "step/recorder.h"
#include "units/units.h"

namespace zplan {

using LiveComponents = std::array<Bytes, kComponents>;

// Calls visit(event index, live) after each of the events 0 ... last. Under a limit the run must get that far.
template <class Visit>
void walk_live(const SimulatedHistory& history, const AllocatorOptions& options, std::size_t last,
               const Visit& visit) {
  CachingAllocator allocator(options);
  LiveComponents live{};
  walk(std::span(history.events).first(last + 1), allocator, [&](std::size_t i, const Event& e, BlockIndex block) {
    if (block != kNoBlock) {  // made, or about to be freed
      const auto component = history.labels[history.blocks[static_cast<std::size_t>(e.block)].label].component;
      const std::int64_t sign = e.action == Action::Allocate ? 1 : -1;
      live[static_cast<std::size_t>(component)] += sign * Bytes{allocator.block(block).size};
    }
    visit(i, live);
    return true;
  });
}

}  // namespace zplan
