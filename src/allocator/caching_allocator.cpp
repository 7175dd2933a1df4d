// Requests and frees: search, split, merge. What the device gives and takes is in device_memory.cpp
// and expandable_segments.cpp. Steps with one caller are inline.
#include "allocator/caching_allocator.h"

#include <algorithm>
#include <cassert>

namespace zplan {

CachingAllocator::CachingAllocator(const AllocatorOptions& options) {
  set_options(options);
  know_stream(0);
  blocks_.emplace_back().state = BlockState::Allocated;  // kNoBlock
}

void CachingAllocator::set_options(const AllocatorOptions& options) {
  options_ = options;
  limit_ = reserved_limit(options);
  tie_break_ = options.rules.tie_break;
  plain_rounding_ =
      std::all_of(options.roundup_power2_divisions.begin(), options.roundup_power2_divisions.end(),
                  [](auto n) { return n == 0; });
  plain_search_ = !options.expandable_segments && reservations_.empty() &&
                  options.max_split_size == std::numeric_limits<std::int64_t>::max();
  count_searches_ = limit_.has_value() && options.garbage_collection_threshold > 0;
}

void CachingAllocator::know_stream(StreamId stream) {
  const std::size_t lists = 2 * (static_cast<std::size_t>(stream) + 1);
  if (free_.size() < lists) {
    free_.resize(lists);
    unmapped_.resize(lists);
  }
}

BlockIndex CachingAllocator::new_block() {
  if (unused_.empty()) [[unlikely]] {
    blocks_.emplace_back();
    return static_cast<BlockIndex>(blocks_.size() - 1);
  }
  const BlockIndex index = unused_.back();
  unused_.pop_back();
  return index;
}

BlockIndex CachingAllocator::new_block(const Block& block) {
  const BlockIndex index = new_block();
  at(index) = block;
  return index;
}

BlockIndex CachingAllocator::allocate(std::int64_t bytes, StreamId stream) {
  if (bytes <= 0) return kNoBlock;
  if (bytes >= kRequestLimit) {
    out_of_memory_ = OutOfMemory{};
    out_of_memory_->requested = Bytes{bytes};
    out_of_memory_->too_large = true;
    return kNoBlock;
  }
  if (list_index(Pool::Large, stream) >= free_.size()) know_stream(stream);
  const std::int64_t size = plain_rounding_ ? std::max(kMinBlock, round_up(bytes, kMinBlock))
                                            : round_size(bytes, options_);
  const Pool pool = pool_of(size);
  FreeList& list = free_[list_index(pool, stream)];
  if (count_searches_) ++searches_[static_cast<std::size_t>(pool)];
  const std::size_t position = best_fit(list, size);
  const BlockIndex index =
      position != kNone ? take_free(list, position, size) : take_new(pool, bytes, size, stream);
  if (index != kNoBlock) hand_out(index, bytes);
  return index;
}

bool CachingAllocator::would_fit(std::int64_t bytes, StreamId stream) const {
  const std::int64_t size = round_size(bytes, options_);
  const std::size_t list = list_index(pool_of(size), stream);
  return list < free_.size() && best_fit(free_[list], size) != kNone;
}

inline std::size_t CachingAllocator::best_fit(const FreeList& list, std::int64_t size) const {
  const std::size_t position = list.lower_bound(size);
  if (position == list.size()) return kNone;
  return plain_search_ ? position : best_fit_with_options(list, position, size);
}

// What a block could become by mapping the pages behind it.
std::int64_t CachingAllocator::growth(BlockIndex index) const {
  const Block& b = block(index);
  const bool grows = !block(b.next).mapped();
  return b.size + (grows ? block(b.next).size : 0);
}

std::size_t CachingAllocator::best_fit_with_options(const FreeList& list, std::size_t position,
                                                    std::int64_t size) const {
  const auto expandable = [&](std::size_t i) { return block(list[i].block()).expandable(); };
  if (expandable(position)) {
    if (options_.expandable_segments) {  // prefer a block that cannot grow to the growable end
      while (expandable(position) && position + 1 < list.size() &&
             growth(list[position + 1].block()) < growth(list[position].block()))
        ++position;
    } else {  // the option was switched off after use
      while (position < list.size() && expandable(position)) ++position;
      if (position == list.size()) return kNone;
    }
  }
  // Only the one candidate is tried against the rules for oversize blocks.
  const std::int64_t found = list[position].size();
  if (size < options_.max_split_size && found >= options_.max_split_size) return kNone;
  if (size >= options_.max_split_size && found >= size + options_.max_non_split_rounding)
    return kNone;
  return position;
}

bool CachingAllocator::should_split(Pool pool, std::int64_t block_size, std::int64_t size) const {
  const std::int64_t rest = block_size - size;
  if (pool == Pool::Small || options_.expandable_segments) return rest >= kMinBlock;
  return size < options_.max_split_size && rest > kSmallMax;
}

// The low end becomes a new block; the rest keeps its identity and stays or becomes free.
// Field by field: a copied block would be read back before its last stores have left the pipeline.
BlockIndex CachingAllocator::split_front(BlockIndex index, std::int64_t size) {
  const BlockIndex made = new_block();
  Block& rest = at(index);
  Block& front = at(made);
  const bool was_split = rest.split();
  front.address = rest.address;
  front.size = size;
  front.counter = tie_break_ == TieBreak::BlockCounter ? ++counter_ : rest.counter;
  front.prev = rest.prev;
  front.next = index;
  front.reservation = rest.reservation;
  front.stream = rest.stream;
  front.pool = rest.pool;
  at(front.prev).next = made;
  rest.prev = made;
  rest.address += size;
  rest.size -= size;
  rest.searches = searches_[static_cast<std::size_t>(rest.pool)];
  if (!rest.expandable()) {
    if (was_split) {
      statistics_.inactive_split_bytes.decrease(rest.pool, size);
    } else {
      statistics_.inactive_split_bytes.increase(rest.pool, rest.size);
      statistics_.inactive_split.increase(rest.pool, 1);
    }
  }
  return made;
}

inline BlockIndex CachingAllocator::take_free(FreeList& list, std::size_t position,
                                              std::int64_t size) {
  const BlockIndex index = list[position].block();
  // Whether it is split is known before the block is read.
  if (should_split(pool_of(size), list[position].size(), size)) {
    const BlockIndex front = split_front(index, size);
    list.shrink_at(position, entry(index), tie_order());
    return front;
  }
  list.erase_at(position);
  const Block& b = block(index);
  if (b.split() && !b.expandable()) {
    statistics_.inactive_split_bytes.decrease(b.pool, b.size);
    statistics_.inactive_split.decrease(b.pool, 1);
  }
  return index;
}

inline void CachingAllocator::hand_out(BlockIndex index, std::int64_t bytes) {
  Block& b = at(index);
  b.state = BlockState::Allocated;
  b.requested = bytes;
  log(TraceAction::Alloc, b.stream, b.address, bytes);
  statistics_.allocation.increase(b.pool, 1);
  statistics_.allocated_bytes.increase(b.pool, b.size);
  statistics_.active.increase(b.pool, 1);
  statistics_.active_bytes.increase(b.pool, b.size);
  statistics_.requested_bytes.increase(b.pool, bytes);
  if (b.size >= options_.max_split_size) statistics_.oversize_allocations.increase(b.pool, 1);
}

inline void CachingAllocator::program_frees(Block& b) {
  assert(b.state == BlockState::Allocated);
  statistics_.allocation.decrease(b.pool, 1);
  statistics_.allocated_bytes.decrease(b.pool, b.size);
  log(TraceAction::FreeRequested, b.stream, b.address, b.requested);
  if (b.size >= options_.max_split_size) statistics_.oversize_allocations.decrease(b.pool, 1);
}

void CachingAllocator::free(BlockIndex index) {
  program_frees(at(index));
  make_free(index);
}

void CachingAllocator::free_requested(BlockIndex index) {
  program_frees(at(index));
  at(index).state = BlockState::Pending;
  pending_.push_back(index);
}

void CachingAllocator::free_completed(BlockIndex index) {
  const auto found = std::find(pending_.begin(), pending_.end(), index);
  assert(found != pending_.end());
  pending_.erase(found);
  make_free(index);
}

// `from` disappears into its neighbour `into`. Returns its size.
std::int64_t CachingAllocator::merge(BlockIndex into, BlockIndex from) {
  Block& b = at(into);
  const Block& source = block(from);
  if (b.prev == from) {
    b.address = source.address;
    b.prev = source.prev;
    at(b.prev).next = into;
  } else {
    b.next = source.next;
    at(b.next).prev = into;
  }
  b.size += source.size;
  delete_block(from);
  return source.size;
}

// The block returns to its pool, one with its free neighbours. It takes over the place of one of
// them in the free list, so that the usual free, next to the rest it was split from, moves one
// entry.
void CachingAllocator::make_free(BlockIndex index) {
  Block& b = at(index);
  log(TraceAction::FreeCompleted, b.stream, b.address, b.requested);
  FreeList& list = free_list(b);
  const Pool pool = b.pool;
  statistics_.active.decrease(pool, 1);
  statistics_.active_bytes.decrease(pool, b.size);
  statistics_.requested_bytes.decrease(pool, b.requested);
  std::int64_t splits = 0, split_bytes = 0;
  std::size_t place = kNone;
  if (block(b.prev).state == BlockState::Free) {
    place = list.find(entry(b.prev));
    split_bytes -= merge(index, b.prev);
    splits -= 1;
  }
  if (block(b.next).state == BlockState::Free) {
    const std::size_t next_place = list.find(entry(b.next));
    split_bytes -= merge(index, b.next);
    splits -= 1;
    if (place != kNone) list.erase_at(next_place);
    place = place == kNone ? next_place : place - (next_place < place);
  }
  b.state = BlockState::Free;
  b.searches = searches_[static_cast<std::size_t>(pool)];
  if (place != kNone) {
    list.grow_at(place, entry(index), tie_order());
  } else {
    list.insert(entry(index), tie_order());
  }
  if (b.expandable()) return;
  if (b.split()) {
    splits += 1;
    split_bytes += b.size;
  }
  statistics_.inactive_split.add(pool, splits);
  statistics_.inactive_split_bytes.add(pool, split_bytes);
}

void CachingAllocator::empty_cache() { release_cached(); }

void CachingAllocator::write_line(const TraceEntry& entry) { trace_->push_back(entry); }

}  // namespace zplan
