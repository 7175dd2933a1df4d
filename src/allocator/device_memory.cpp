// What the allocator takes from the device and gives back: segments, the order of attempts when
// memory is short, garbage collection, the release of cached blocks.
// docs/allocator.md#device-memory
#include <algorithm>
#include <cassert>

#include "allocator/caching_allocator.h"

namespace zplan {

// No free block served: in PyTorch's order collect, allocate, release what is large enough,
// allocate, release everything, allocate again, give up.
BlockIndex CachingAllocator::take_new(Pool pool, std::int64_t bytes, std::int64_t size,
                                      StreamId stream) {
  const std::int64_t segment = segment_size(size, options_);
  if (count_searches_) collect_garbage();
  rejected_ = false;
  BlockIndex index = device_alloc(pool, size, segment, stream, false);
  if (index == kNoBlock && !rejected_) {
    if (release_available(pool, size, stream))
      index = device_alloc(pool, size, segment, stream, false);
    if (index == kNoBlock) {
      release_cached();
      index = device_alloc(pool, size, segment, stream, true);
    }
  }
  if (index == kNoBlock) {
    OutOfMemory oom;
    oom.requested = Bytes{bytes};
    oom.segment = Bytes{segment};
    oom.device_total = options_.device_total;
    oom.allocated = Bytes{statistics_.allocated_bytes.current()};
    oom.reserved = Bytes{statistics_.reserved_bytes.current()};
    if (options_.device_free) oom.device_free = *options_.device_free - oom.reserved;
    oom.allowed = limit_;
    oom.rejected = rejected_;
    if (!rejected_) {
      statistics_.num_ooms += 1;
      log(TraceAction::Oom, stream, oom.device_free.value_or(Bytes{0}).count, size);
    }
    out_of_memory_ = oom;
    return kNoBlock;
  }
  if (!should_split(pool, block(index).size, size)) return index;
  const BlockIndex front = split_front(index, size);
  free_list(block(index)).insert(entry(index), tie_order());
  return front;
}

// The driver deals in pages of 2 MiB, and so do all segments. Where nothing is said of the device
// it has 1 TiB, more than any.
bool CachingAllocator::device_has(std::int64_t bytes) const {
  if (statistics_.reserved_bytes.current() + bytes >= FreeEntry::kMaxSize) return false;
  if (has_) return has_(bytes);
  if (!options_.device_free) return true;
  return statistics_.reserved_bytes.current() + round_up(bytes, kLargeRounding) <=
         options_.device_free->count;
}

std::int64_t CachingAllocator::place(std::int64_t bytes) {
  return place_ ? place_(bytes) : address_space_.take(bytes);
}

BlockIndex CachingAllocator::device_alloc(Pool pool, std::int64_t size, std::int64_t segment,
                                          StreamId stream, bool retry) {
  if (retry) statistics_.num_alloc_retries += 1;
  const std::int64_t reserved = statistics_.reserved_bytes.current();
  // The limit is tested with the segment's size also where an expandable segment would map less.
  if (limit_ && reserved + segment > limit_->count) return kNoBlock;
  if (options_.throw_on_cudamalloc_oom && options_.device_total) {
    const double allowed =
        options_.per_process_memory_fraction * static_cast<double>(options_.device_total->count);
    if (static_cast<double>(reserved + segment) > allowed) {
      statistics_.num_oom_rejections += 1;
      rejected_ = true;
      return kNoBlock;
    }
  }
  if (options_.expandable_segments) return expandable_alloc(pool, size, stream);
  if (!device_has(segment)) return kNoBlock;
  Block b;
  b.address = place(segment);
  b.size = segment;
  b.counter = ++counter_;
  b.stream = stream;
  b.pool = pool;
  statistics_.segment.increase(pool, 1);
  statistics_.reserved_bytes.increase(pool, segment);
  if (segment >= options_.max_split_size) statistics_.oversize_segments.increase(pool, 1);
  statistics_.num_device_alloc += 1;
  log(TraceAction::SegmentAlloc, stream, b.address, segment);
  return new_block(b);
}

// cudaFree of a whole segment; the caller takes it out of its free list.
void CachingAllocator::release_block(BlockIndex index) {
  const Block b = block(index);
  assert(!b.split() && !b.expandable());
  statistics_.num_device_free += 1;
  log(TraceAction::SegmentFree, b.stream, b.address, b.size);
  statistics_.segment.decrease(b.pool, 1);
  statistics_.reserved_bytes.decrease(b.pool, b.size);
  if (b.size >= options_.max_split_size) statistics_.oversize_segments.decrease(b.pool, 1);
  delete_block(index);
}

// Above the threshold, whole segments of the large pool that were not used for longest go first,
// until reserved is back at the threshold. Age is counted in searches of that pool.
void CachingAllocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(options_.garbage_collection_threshold *
                                                   static_cast<double>(limit_->count));
  if (statistics_.reserved_bytes.current() <= threshold) return;
  const std::int64_t target = statistics_.reserved_bytes.current() - threshold;
  const auto pool = static_cast<std::size_t>(Pool::Large);
  const auto age = [&](const Block& b) { return searches_[pool] - b.searches; };
  std::int64_t ages = 0, count = 0;
  for (std::size_t i = pool; i < free_.size(); i += 2)
    for (std::size_t k = 0; k < free_[i].size(); ++k) {
      const Block& b = block(free_[i][k].block());
      if (b.split() || b.expandable()) continue;
      ages += age(b);
      count += 1;
    }
  std::int64_t reclaimed = 0;
  for (bool progress = true; reclaimed < target && progress && count > 0;) {
    const double limit_age = static_cast<double>(ages) / static_cast<double>(count);
    progress = false;
    for (std::size_t i = pool; i < free_.size(); i += 2)
      free_[i].keep_if([&](const FreeEntry e) {
        const Block& b = block(e.block());
        if (b.split() || b.expandable() || static_cast<double>(age(b)) < limit_age) return true;
        progress = true;
        reclaimed += b.size;
        ages -= age(b);
        count -= 1;
        release_block(e.block());
        return false;
      });
  }
}

// With max_split_size set: one cached block that alone makes room, or several oversize ones of the
// stream from the largest down.
bool CachingAllocator::release_available(Pool pool, std::int64_t size, StreamId stream) {
  if (options_.max_split_size == std::numeric_limits<std::int64_t>::max()) return false;
  FreeList& list = free_[list_index(pool, stream)];
  const std::int64_t key = std::max(size, options_.max_split_size);
  std::size_t position = list.lower_bound(key);
  if (position < list.size() && !block(list[position].block()).expandable()) {
    const BlockIndex index = list[position].block();
    list.erase_at(position);
    release_block(index);
    return true;
  }
  std::int64_t released = 0;
  while (position > 0 && released < key && list[position - 1].size() >= options_.max_split_size) {
    --position;
    const BlockIndex index = list[position].block();
    if (block(index).expandable()) continue;
    released += block(index).size;
    list.erase_at(position);
    release_block(index);
  }
  return released >= key;
}

// Waits for every stream, then releases what is wholly free, of all streams, the large pool first.
void CachingAllocator::release_cached() {
  statistics_.num_sync_all_streams += 1;
  while (!pending_.empty()) free_completed(pending_.front());
  release_blocks(Pool::Large);
  release_blocks(Pool::Small);
}

void CachingAllocator::release_blocks(Pool pool) {
  std::vector<BlockIndex> expandable;
  for (std::size_t i = static_cast<std::size_t>(pool); i < free_.size(); i += 2)
    free_[i].keep_if([&](const FreeEntry e) {
      const Block& b = block(e.block());
      if (b.expandable()) {
        expandable.push_back(e.block());
        return true;
      }
      if (b.split()) return true;
      release_block(e.block());
      return false;
    });
  for (const BlockIndex index : expandable) unmap_free_pages(index);
}

}  // namespace zplan
