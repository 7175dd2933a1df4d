// A simulated history walked event by event: what is live after each, as the allocator counts it, by component.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
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
  std::vector<BlockIndex> block(history.blocks.size(), kNoBlock);
  LiveComponents live{};
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
    live[static_cast<std::size_t>(component)] +=
        Bytes{sign * allocator.block(block[static_cast<std::size_t>(id)]).size};
  };
  for (std::size_t i = 0; i <= last; ++i) {
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
      case Action::Mark:
        break;
    }
    visit(i, live);
  }
}

}  // namespace zplan
