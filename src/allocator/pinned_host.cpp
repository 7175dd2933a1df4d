#include "allocator/pinned_host.h"

#include <algorithm>
#include <bit>

namespace zplan {
namespace {

// ceil(log2(size)): the free list a block of this size stands in.
int bucket(Bytes size) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size.count - 1)));
}

}  // namespace

Bytes pinned_block_size(Bytes request, const AllocatorOptions& options) {
  const PinnedOptions& p = options.pinned;
  if (options.rules.pinned_thresholds_known &&
      request > std::min(p.max_round_threshold, p.max_cached_size))
    return request;
  return Bytes{static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(request.count)))};
}

PinnedHostAllocator::Handle PinnedHostAllocator::take_free(Bytes request) {
  if (options_.rules.pinned_reuse == PinnedReuse::BestFit) {
    auto best = free_.end();
    for (auto i = free_.begin(); i != free_.end(); ++i)
      if (block_size(*i) >= request && (best == free_.end() || block_size(*i) < block_size(*best)))
        best = i;
    if (best == free_.end()) return kNone;
    const Handle block = *best;
    free_.erase(best);
    return block;
  }
  const int wanted = bucket(pinned_block_size(request, options_));
  const auto found = std::find_if(free_.rbegin(), free_.rend(),
                                  [&](Handle h) { return bucket(block_size(h)) == wanted; });
  if (found == free_.rend()) return kNone;
  const Handle block = *found;
  free_.erase(std::next(found).base());
  return block;
}

PinnedHostAllocator::Handle PinnedHostAllocator::allocate(Bytes bytes) {
  if (bytes.count <= 0) return kNone;
  Handle block = take_free(bytes);
  if (block == kNone) {
    const Bytes size = pinned_block_size(bytes, options_);
    if (unused_.empty()) {
      unused_.push_back(static_cast<Handle>(blocks_.size()));
      blocks_.emplace_back();
    }
    block = unused_.back();
    unused_.pop_back();
    blocks_[static_cast<std::size_t>(block)].size = size;
    allocated_bytes_.increase(Pool::Small, size.count);
    host_allocations_ += 1;
  }
  blocks_[static_cast<std::size_t>(block)].active = true;
  active_bytes_.increase(Pool::Small, block_size(block).count);
  return block;
}

void PinnedHostAllocator::free(Handle block) {
  if (block == kNone) return;
  free_requested(block);
  keep_or_release(block);
}

// Above the cached size a block goes back at once (2.13).
void PinnedHostAllocator::keep_or_release(Handle block) {
  active_bytes_.decrease(Pool::Small, block_size(block).count);
  if (!options_.rules.pinned_thresholds_known ||
      block_size(block) <= options_.pinned.max_cached_size) {
    free_.push_back(block);
    return;
  }
  allocated_bytes_.decrease(Pool::Small, block_size(block).count);
  unused_.push_back(block);
}

void PinnedHostAllocator::empty_cache() {
  for (const Handle block : free_) {
    allocated_bytes_.decrease(Pool::Small, block_size(block).count);
    unused_.push_back(block);
  }
  free_.clear();
}

void PinnedHostAllocator::reset_peak() {
  allocated_bytes_.reset_peak();
  active_bytes_.reset_peak();
}

}  // namespace zplan
