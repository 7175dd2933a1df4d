#include "allocator/replay.h"

#include <algorithm>

namespace zplan {
namespace {

// Where each block of the history lies now.
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

}  // namespace

PhaseFigures figures(const Statistics& s) {
  return {Bytes{s.allocated_bytes.current()},      Bytes{s.allocated_bytes.peak()},
          Bytes{s.reserved_bytes.current()},       Bytes{s.reserved_bytes.peak()},
          Bytes{s.active_bytes.current()},         Bytes{s.active_bytes.peak()},
          Bytes{s.inactive_split_bytes.current()}, s.num_alloc_retries};
}

Replay replay(std::span<const Event> events, CachingAllocator& allocator) {
  Replay result;
  Places places;
  std::vector<BlockId> pending;  // freed by the program, not yet reusable
  const Statistics& s = allocator.statistics();
  std::int64_t synchronisations = s.num_sync_all_streams;
  const auto note_peaks = [&] {
    result.reserved_peak = std::max(result.reserved_peak, Bytes{s.reserved_bytes.peak()});
    result.active_peak = std::max(result.active_peak, Bytes{s.active_bytes.peak()});
  };
  // A synchronisation completed every pending free: what the history says of them later is void.
  const auto drop_pending = [&] {
    if (s.num_sync_all_streams == synchronisations) return;
    synchronisations = s.num_sync_all_streams;
    for (const BlockId id : pending) places.set(id, kNoBlock);
    pending.clear();
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    switch (e.action) {
      case Action::Allocate: {
        const BlockIndex index = allocator.allocate(e.bytes, e.stream);
        places.set(e.block, index);
        if (!pending.empty()) drop_pending();
        if (index == kNoBlock && e.bytes > 0) {
          result.oom = allocator.out_of_memory();
          result.oom->event = static_cast<std::int64_t>(i);
          note_peaks();
          result.end = figures(s);
          return result;
        }
        if (const Bytes now{s.allocated_bytes.current()}; now > result.allocated_peak) {
          result.allocated_peak = now;
          result.allocated_peak_event = static_cast<std::int64_t>(i);
          result.reserved_at_allocated_peak = Bytes{s.reserved_bytes.current()};
        }
        break;
      }
      case Action::Free:
        if (const BlockIndex index = places.of(e.block); index != kNoBlock) allocator.free(index);
        break;
      case Action::FreeRequested:
        if (const BlockIndex index = places.of(e.block); index != kNoBlock) {
          allocator.free_requested(index);
          pending.push_back(e.block);
        }
        break;
      case Action::FreeCompleted:
        if (const BlockIndex index = places.of(e.block); index != kNoBlock) {
          allocator.free_completed(index);
          pending.erase(std::find(pending.begin(), pending.end(), e.block));
          places.set(e.block, kNoBlock);
        }
        break;
      case Action::EmptyCache:
        allocator.empty_cache();
        drop_pending();
        break;
      case Action::Mark:
        note_peaks();
        result.phases.push_back(figures(s));
        allocator.statistics().reset_peak();
        break;
    }
  }
  note_peaks();
  result.end = figures(s);
  return result;
}

Replay replay(std::span<const Event> events, const AllocatorOptions& options) {
  CachingAllocator allocator(options);
  return replay(events, allocator);
}

}  // namespace zplan
