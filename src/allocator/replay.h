// A history replayed from an empty allocator: the figures of each phase, the peaks and where memory
// ends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/history.h"
#include "allocator/options.h"
#include "allocator/out_of_memory.h"

namespace zplan {

// What a Mark records.
PhaseFigures figures(const Statistics& statistics);

struct Replay {
  std::vector<PhaseFigures> phases;  // one a Mark; when memory ran out, those before
  std::optional<OutOfMemory> oom;    // the replay stops at the first
  Bytes allocated_peak, reserved_peak, active_peak;  // over the whole history
  std::int64_t allocated_peak_event = -1;            // the first event that reached allocated_peak
  Bytes reserved_at_allocated_peak;
  PhaseFigures end;  // as a Mark after the last event would say
};
Replay replay(std::span<const Event> events, const AllocatorOptions& options);

// Replays into an allocator that the caller made and may look at afterwards.
Replay replay(std::span<const Event> events, CachingAllocator& allocator);

}  // namespace zplan
