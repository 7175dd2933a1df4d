// A history applied to an allocator, event by event: what a replay, and everything else that looks at the moments of a
// history, does between two looks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/history.h"

namespace zplan {

// Where each block of a history lies now.
class Places {
 public:
  BlockIndex of(BlockId id) const { return places_[static_cast<std::size_t>(id)]; }
  void set(BlockId id, BlockIndex index) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= places_.size()) places_.resize(std::max(i + 1, 2 * places_.size()), kNoBlock);
    places_[i] = index;
  }

 private:
  std::vector<BlockIndex> places_;
};

// Calls visit(index of the event, event, block) for each event until it returns false: after an allocation (kNoBlock:
// memory is out, or nothing was asked for), before the program's free of a block; kNoBlock for all others.
template <class Visit>
void walk(std::span<const Event> events, CachingAllocator& allocator, Visit visit) {
  Places places;
  std::vector<BlockId> pending;  // freed by the program, not yet reusable
  std::int64_t synchronisations = allocator.statistics().num_sync_all_streams;
  // A synchronisation completed every pending free: what the history says of them later is void.
  const auto drop_pending = [&] {
    const auto now = allocator.statistics().num_sync_all_streams;
    if (now == synchronisations) return;
    synchronisations = now;
    for (const BlockId id : pending) places.set(id, kNoBlock);
    pending.clear();
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    BlockIndex block = kNoBlock;
    switch (e.action) {
      case Action::Allocate:
        block = allocator.allocate(e.bytes, e.stream);
        places.set(e.block, block);
        if (!pending.empty()) drop_pending();
        break;
      case Action::Free:
      case Action::FreeRequested:
        block = places.of(e.block);
        break;
      case Action::FreeCompleted:
        if (const BlockIndex freed = places.of(e.block); freed != kNoBlock) {
          allocator.free_completed(freed);
          pending.erase(std::find(pending.begin(), pending.end(), e.block));
          places.set(e.block, kNoBlock);
        }
        break;
      case Action::EmptyCache:
        allocator.empty_cache();
        drop_pending();
        break;
      case Action::Mark:
        break;
    }
    if (!visit(i, e, block)) return;
    if (block == kNoBlock) continue;
    if (e.action == Action::Free) {
      allocator.free(block);
    } else if (e.action == Action::FreeRequested) {
      allocator.free_requested(block);
      pending.push_back(e.block);
    }
  }
}

}  // namespace zplan
