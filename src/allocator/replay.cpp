#include "allocator/replay.h"

#include <algorithm>

#include "allocator/walk.h"

namespace zplan {

PhaseFigures figures(const Statistics& s) {
  return {Bytes{s.allocated_bytes.current()},      Bytes{s.allocated_bytes.peak()},
          Bytes{s.reserved_bytes.current()},       Bytes{s.reserved_bytes.peak()},
          Bytes{s.active_bytes.current()},         Bytes{s.active_bytes.peak()},
          Bytes{s.inactive_split_bytes.current()}, s.num_alloc_retries};
}

Replay replay(std::span<const Event> events, CachingAllocator& allocator) {
  Replay result;
  Statistics& s = allocator.statistics();
  const auto note_peaks = [&] {
    result.reserved_peak = std::max(result.reserved_peak, Bytes{s.reserved_bytes.peak()});
    result.active_peak = std::max(result.active_peak, Bytes{s.active_bytes.peak()});
  };
  walk(events, allocator, [&](std::size_t i, const Event& e, BlockIndex block) {
    if (e.action == Action::Allocate) {
      if (block == kNoBlock && e.bytes > 0) {
        result.oom = allocator.out_of_memory();
        result.oom->event = static_cast<std::int64_t>(i);
        return false;
      }
      if (const Bytes now{s.allocated_bytes.current()}; now > result.allocated_peak) {
        result.allocated_peak = now;
        result.allocated_peak_event = static_cast<std::int64_t>(i);
        result.reserved_at_allocated_peak = Bytes{s.reserved_bytes.current()};
      }
    } else if (e.action == Action::Mark) {
      note_peaks();
      result.phases.push_back(figures(s));
      s.reset_peak();
    }
    return true;
  });
  note_peaks();
  result.end = figures(s);
  return result;
}

Replay replay(std::span<const Event> events, const AllocatorOptions& options) {
  CachingAllocator allocator(options);
  return replay(events, allocator);
}

}  // namespace zplan
