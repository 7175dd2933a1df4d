// expandable_segments:True: one reserved address range per pool and stream, mapped page by page at
// its lowest free place and unmapped only when cached memory is released.
// docs/allocator.md#expandable-segments
#include <algorithm>
#include <cassert>

#include "allocator/caching_allocator.h"

namespace zplan {

void CachingAllocator::add_unmapped(BlockIndex index) {
  auto& list = unmapped_[list_index(block(index).pool, block(index).stream)];
  const auto place = std::find_if(list.begin(), list.end(), [&](BlockIndex other) {
    return block(other).address > block(index).address;
  });
  list.insert(place, index);
}

void CachingAllocator::remove_unmapped(BlockIndex index) {
  auto& list = unmapped_[list_index(block(index).pool, block(index).stream)];
  list.erase(std::find(list.begin(), list.end(), index));
}

// A fresh range: an eighth more than the device's memory, in pages. It costs addresses, not memory.
BlockIndex CachingAllocator::reserve(Pool pool, std::int64_t size, StreamId stream) {
  const std::int64_t page = page_size(pool, options_);
  const std::int64_t total = options_.device_total.value_or(GiB(1024)).count;
  Reservation range;
  range.page = page;
  range.bytes = round_up(std::max(total + total / 8, size), page);
  // One that was given back serves again, address included: it holds nothing to tell them apart.
  auto place_of = std::find_if(
      reservations_.begin(), reservations_.end(),
      [&](const Reservation& r) { return !r.live && r.bytes == range.bytes && r.page == page; });
  range.address =
      place_ || place_of == reservations_.end() ? place(range.bytes) : place_of->address;
  if (place_of == reservations_.end()) place_of = reservations_.insert(place_of, range);
  *place_of = range;
  plain_search_ = false;
  Block b;
  b.address = range.address;
  b.size = range.bytes;
  b.counter = ++counter_;
  b.reservation = static_cast<std::int32_t>(place_of - reservations_.begin());
  b.stream = stream;
  b.pool = pool;
  b.state = BlockState::Unmapped;
  const BlockIndex index = new_block(b);
  add_unmapped(index);
  return index;
}

// The lowest run of free and unmapped blocks that is long enough, ending the search at each
// unmapped one: a free block right before it belongs to the run.
BlockIndex CachingAllocator::find_run(Pool pool, std::int64_t size, StreamId stream) {
  const auto usable = [&](BlockIndex i) { return !block(i).in_use(); };
  for (const BlockIndex hole : unmapped_[list_index(pool, stream)]) {
    const BlockIndex first = usable(block(hole).prev) ? block(hole).prev : hole;
    std::int64_t sum = 0;
    for (BlockIndex i = first; usable(i); i = block(i).next) {
      sum += block(i).size;
      if (sum >= size) return first;
    }
  }
  return reserve(pool, size, stream);
}

// Maps the pages at the start of an unmapped block; false if the device has not that many.
bool CachingAllocator::map(BlockIndex index, std::int64_t bytes) {
  const Pool pool = block(index).pool;
  const std::int64_t mapped = std::min(round_up(bytes, range_of(index).page), block(index).size);
  if (!device_has(mapped)) return false;
  remove_unmapped(index);
  if (mapped < block(index).size) {
    Block rest = block(index);
    rest.address += mapped;
    rest.size -= mapped;
    rest.prev = index;
    if (options_.rules.tie_break == TieBreak::BlockCounter) rest.counter = ++counter_;
    const BlockIndex made = new_block(rest);
    at(rest.next).prev = made;
    at(index).next = made;
    at(index).size = mapped;
    add_unmapped(made);
  }
  at(index).state = BlockState::Free;
  const std::int64_t address = block(index).address;
  for (const BlockIndex neighbour : {block(index).prev, block(index).next}) {
    if (block(neighbour).state != BlockState::Free) continue;
    free_list(at(index)).erase(entry(neighbour));
    merge(index, neighbour);
  }
  at(index).searches = searches_[static_cast<std::size_t>(pool)];
  free_list(at(index)).insert(entry(index), tie_order());
  statistics_.reserved_bytes.increase(pool, mapped);
  statistics_.num_device_alloc += 1;
  log(TraceAction::SegmentMap, block(index).stream, address, mapped);
  return true;
}

BlockIndex CachingAllocator::expandable_alloc(Pool pool, std::int64_t size, StreamId stream) {
  BlockIndex run = find_run(pool, size, stream);
  if (!block(run).mapped() && !map(run, std::min(size, block(run).size))) return kNoBlock;
  while (block(run).size < size) {
    // The neighbour is unmapped, or it would have merged. What was mapped so far stays, should this
    // fail.
    const BlockIndex next = block(run).next;
    assert(!block(next).mapped());
    if (!map(next, std::min(size - block(run).size, block(next).size))) return kNoBlock;
    run = next;
  }
  free_list(at(run)).erase(entry(run));
  return run;
}

// The whole pages inside a free block go back to the device; its ends stay as free blocks.
void CachingAllocator::unmap_free_pages(BlockIndex index) {
  const Pool pool = block(index).pool;
  const std::int64_t page = page_size(pool, options_);
  const std::int64_t base =
      reservations_[static_cast<std::size_t>(block(index).reservation)].address;
  const std::int64_t from = block(index).address - base, to = from + block(index).size;
  const std::int64_t low = round_up(from, page), high = to / page * page;
  if (low >= high) return;
  FreeList& list = free_list(at(index));
  list.erase(entry(index));
  const auto cut = [&](std::int64_t offset, std::int64_t size, BlockIndex prev, BlockIndex next) {
    Block part = block(index);
    part.address = base + offset;
    part.size = size;
    part.requested = 0;
    part.searches = searches_[static_cast<std::size_t>(pool)];
    part.prev = prev;
    part.next = next;
    if (options_.rules.tie_break == TieBreak::BlockCounter) part.counter = ++counter_;
    const BlockIndex made = new_block(part);
    at(prev).next = made;
    at(next).prev = made;
    list.insert(entry(made), tie_order());
  };
  if (from < low) cut(from, low - from, block(index).prev, index);
  if (high < to) cut(high, to - high, index, block(index).next);
  at(index).address = base + low;
  at(index).size = high - low;
  at(index).state = BlockState::Unmapped;
  for (const BlockIndex neighbour : {block(index).prev, block(index).next}) {
    if (block(neighbour).mapped()) continue;
    remove_unmapped(neighbour);
    merge(index, neighbour);
  }
  add_unmapped(index);
  statistics_.reserved_bytes.decrease(pool, high - low);
  statistics_.num_device_free += 1;
  log(TraceAction::SegmentUnmap, block(index).stream, base + low, high - low);
  if (!block(index).split()) {  // nothing mapped is left: the range itself is given back
    reservations_[static_cast<std::size_t>(block(index).reservation)].live = false;
    remove_unmapped(index);
    delete_block(index);
  }
}

}  // namespace zplan
