#include "step/simulation.h"

#include <numeric>

#include "allocator/alloc_conf.h"
#include "allocator/capacity.h"
#include "allocator/replay.h"
#include "spec/error.h"
#include "step/live_components.h"
#include "step/moments.h"
#include "step/process_memory.h"
#include "step/simulate.h"
#include "step/unknown_events.h"

namespace zplan {

AllocatorOptions allocator_options(const Run& run) {
  const auto rules = allocator_rules({run.versions.torch.major, run.versions.torch.minor});
  AllocatorOptions options;
  try {
    options = parse_alloc_conf(run.alloc_conf, rules);
  } catch (const AllocConfError& e) {
    throw InputError("alloc_conf \"" + run.alloc_conf + "\"", e.what(), e.fix());
  }
  options.capacity_limit = run.capacity_limit;
  return options;
}

Simulation simulate(const Run& run, Detail detail) {
  const auto options = allocator_options(run);
  const auto history = simulate_events(run);
  const auto replayed = replay(history.events, options);
  Simulation s;
  s.rank = run.rank;
  s.world_size = run.world_size;
  s.events = static_cast<std::int64_t>(history.events.size());
  for (std::size_t i = 0; i < replayed.phases.size(); ++i) {
    const auto& mark = history.phases[i];
    PhaseFigures figures = replayed.phases[i];
    if (mark.peaks_reset) {  // what torch would report
      figures.allocated_peak = figures.allocated;
      figures.reserved_peak = figures.reserved;
      figures.active_peak = figures.active;
    }
    const Bytes process = process_memory(mark.phase, mark.step, run.world_size > 1 && !run.stand_in);
    s.phases.push_back({mark.step, mark.micro_step, mark.phase, figures, mark.host + process, mark.host_peak + process,
                        mark.host_pinned});
  }
  s.peak.allocated = replayed.allocated_peak;
  s.peak.reserved = replayed.reserved_peak;
  s.peak.reserved_then = replayed.reserved_at_allocated_peak;
  if (replayed.allocated_peak_event >= 0) {
    const auto event = static_cast<std::size_t>(replayed.allocated_peak_event);
    s.peak.at = moment_of(history, event);
    if (detail != Detail::Figures) s.peak.by_component = components_after(history, options, event);
  }
  if (replayed.oom) {
    const auto& oom = *replayed.oom;
    s.oom = SimulatedOom{moment_of(history, static_cast<std::size_t>(oom.event)), oom.requested,
                         oom.allowed ? *oom.allowed - oom.reserved : oom.device_free.value_or(Bytes{}), oom.allocated, oom.reserved};
  }
  if (detail == Detail::Full) s.smallest_capacity = smallest_capacity(history.events, options);
  s.outside = outside_allocator(run);
  s.notes = unknown_events(run);
  s.device_capacity = run.gpu.memory_total;
  return s;
}

PhaseParts phase_parts(const Run& run, std::size_t phase) {
  const auto history = simulate_events(run);
  const std::size_t begin = phase == 0 ? 0 : history.phases[phase - 1].end, end = history.phases[phase].end;
  PhaseParts parts;
  if (end == begin) return parts;
  std::size_t peak_event = begin;
  Bytes peak{-1};
  walk_live(history, allocator_options(run), end - 1, [&](std::size_t i, const LiveComponents& live) {
    if (i + 1 == begin) parts.at_begin = live;
    if (i < begin) return;
    const Bytes all = std::accumulate(live.begin(), live.end(), Bytes{});
    if (all > peak) peak = all, peak_event = i, parts.at_peak = live;
    if (i + 1 == end) parts.at_end = live;
  });
  const BlockId block = history.events[peak_event].block;
  parts.event = moment_of(history, peak_event).event;
  parts.event_component = history.labels[history.blocks[static_cast<std::size_t>(block)].label].component;
  return parts;
}

}  // namespace zplan
