#include "allocator/capacity.h"

#include "allocator/replay.h"

namespace zplan {

Bytes smallest_capacity(std::span<const Event> events, const AllocatorOptions& options,
                        Bytes resolution) {
  AllocatorOptions limited = options;
  limited.device_free.reset();
  limited.device_total.reset();
  limited.throw_on_cudamalloc_oom = false;
  limited.capacity_limit.reset();
  const Replay free_of_limits = replay(events, limited);
  const auto completes = [&](std::int64_t steps) {
    limited.capacity_limit = resolution * steps;
    return !replay(events, limited).oom;
  };
  // Reserved is never below allocated, so one step under that peak fails.
  std::int64_t fails = free_of_limits.allocated_peak.count / resolution.count - 1;
  std::int64_t fits = ceil_div(free_of_limits.reserved_peak.count, resolution.count);
  // The limit is tested with a whole segment even where an expandable one maps less.
  while (!completes(fits)) {
    fails = fits;
    fits += ceil_div(limited.large_segment_size, resolution.count);
  }
  while (fits - fails > 1) {
    const std::int64_t middle = fails + (fits - fails) / 2;
    (completes(middle) ? fits : fails) = middle;
  }
  return resolution * fits;
}

}  // namespace zplan
