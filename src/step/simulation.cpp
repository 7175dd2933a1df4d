#include "step/simulation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/alloc_conf.h"
#include "allocator/caching_allocator.h"
#include "allocator/capacity.h"
#include "allocator/replay.h"
#include "spec/error.h"
#include "step/process_memory.h"
#include "step/simulate.h"
#include "step/unknown_events.h"

namespace zplan {
namespace {

std::string text(const SimulatedHistory& history, BlockId block) {
  const auto& info = history.blocks[static_cast<std::size_t>(block)];
  std::string out = history.labels[info.label].text;
  if (info.index >= 0) out += " " + std::to_string(info.index);
  return out;
}

Moment moment(const SimulatedHistory& history, std::size_t event) {
  Moment m;
  for (const auto& mark : history.phases) {
    m.step = mark.step;
    m.micro_step = mark.micro_step;
    m.phase = mark.phase;
    if (event < mark.end) break;
  }
  m.event = text(history, history.events[event].block);
  return m;
}

// What is live right after `event`, as the allocator counts it, by component.
std::array<Bytes, kComponents> components(const SimulatedHistory& history, const AllocatorOptions& options, std::size_t event) {
  CachingAllocator allocator(options);
  std::vector<BlockIndex> block(history.blocks.size(), kNoBlock);
  std::array<Bytes, kComponents> sums{};
  // A synchronisation under a limit completes every pending free: what the history says of them later is void.
  std::vector<BlockId> pending;
  std::int64_t synchronisations = allocator.statistics().num_sync_all_streams;
  const auto drop_pending = [&] {
    const auto now = allocator.statistics().num_sync_all_streams;
    if (std::exchange(synchronisations, now) == now) return;
    for (const BlockId id : pending) block[static_cast<std::size_t>(id)] = kNoBlock;
    pending.clear();
  };
  const auto add = [&](BlockId id, std::int64_t sign) {
    const auto component = history.labels[history.blocks[static_cast<std::size_t>(id)].label].component;
    sums[static_cast<std::size_t>(component)] += Bytes{sign * allocator.block(block[static_cast<std::size_t>(id)]).size};
  };
  for (std::size_t i = 0; i <= event; ++i) {
    const auto& e = history.events[i];
    auto& b = block[static_cast<std::size_t>(e.block)];
    switch (e.action) {
      case Action::Allocate:
        b = allocator.allocate(e.bytes, e.stream);
        drop_pending();
        add(e.block, 1);
        break;
      case Action::Free:
        add(e.block, -1);
        allocator.free(b);
        break;
      case Action::FreeRequested:
        add(e.block, -1);
        allocator.free_requested(b);
        pending.push_back(e.block);
        break;
      case Action::FreeCompleted:
        if (b == kNoBlock) break;
        allocator.free_completed(b);
        pending.erase(std::find(pending.begin(), pending.end(), e.block));
        b = kNoBlock;
        break;
      case Action::EmptyCache:
        allocator.empty_cache();
        drop_pending();
        break;
      case Action::Mark: break;
    }
  }
  return sums;
}

}  // namespace

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
    const Bytes process = process_memory(mark.phase, mark.step, run.world_size > 1 && !run.stand_in);
    s.phases.push_back({mark.step, mark.micro_step, mark.phase, replayed.phases[i], mark.host + process, mark.host_peak + process,
                        mark.host_pinned});
  }
  s.peak.allocated = replayed.allocated_peak;
  s.peak.reserved = replayed.reserved_peak;
  s.peak.reserved_then = replayed.reserved_at_allocated_peak;
  if (replayed.allocated_peak_event >= 0) {
    const auto event = static_cast<std::size_t>(replayed.allocated_peak_event);
    s.peak.at = moment(history, event);
    if (detail != Detail::Figures) s.peak.by_component = components(history, options, event);
  }
  if (replayed.oom) {
    const auto& oom = *replayed.oom;
    s.oom = SimulatedOom{moment(history, static_cast<std::size_t>(oom.event)), oom.requested,
                         oom.allowed ? *oom.allowed - oom.reserved : oom.device_free.value_or(Bytes{}), oom.allocated, oom.reserved};
  }
  if (detail == Detail::Full) s.smallest_capacity = smallest_capacity(history.events, options);
  s.outside = outside_allocator(run);
  s.notes = unknown_events(run);
  s.device_capacity = run.gpu.memory_total;
  return s;
}

}  // namespace zplan
