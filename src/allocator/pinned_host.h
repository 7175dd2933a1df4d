// PyTorch's pinned-host allocator: whole blocks, never split or merged, kept for the next request.
// ATen/core/CachingHostAllocator.h; docs/allocator.md#pinned-host-memory
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/options.h"
#include "allocator/statistics.h"
#include "units/units.h"

namespace zplan {

// What a request pins when no block can be used again: the next power of two, or its own size above
// a threshold (2.13).
Bytes pinned_block_size(Bytes request, const AllocatorOptions& options);

class PinnedHostAllocator {
 public:
  explicit PinnedHostAllocator(const AllocatorOptions& options = {}) : options_(options) {}

  using Handle = std::int32_t;
  static constexpr Handle kNone = -1;

  // kNone for zero bytes.
  Handle allocate(Bytes bytes);
  // Not recorded on any stream, or its copies are known to be done.
  void free(Handle block);
  // A block that a non-blocking copy used: back in the cache when the next request, or
  // empty_cache(), sees the copy's event passed.
  void free_requested(Handle block) { blocks_[static_cast<std::size_t>(block)].active = false; }
  void free_completed(Handle block) { keep_or_release(block); }
  // torch._C._host_emptyCache(): the free blocks go back to the operating system.
  void empty_cache();

  // torch.cuda.host_memory_stats(): allocated_bytes is all that is pinned, active_bytes what is in
  // use. torch sums active_bytes' peak over powers of two; this one is the peak of the sum.
  Bytes pinned() const { return Bytes{allocated_bytes_.current()}; }
  Bytes pinned_peak() const { return Bytes{allocated_bytes_.peak()}; }
  Bytes active() const { return Bytes{active_bytes_.current()}; }
  Bytes active_peak() const { return Bytes{active_bytes_.peak()}; }
  std::int64_t host_allocations() const { return host_allocations_; }
  Bytes block_size(Handle block) const { return blocks_[static_cast<std::size_t>(block)].size; }
  void reset_peak();

 private:
  struct Block {
    Bytes size;
    bool active = false;
  };
  Handle take_free(Bytes request);
  void keep_or_release(Handle block);

  AllocatorOptions options_;
  std::vector<Block> blocks_;
  std::vector<Handle> free_;    // the last freed is used first
  std::vector<Handle> unused_;  // places in blocks_
  Counter allocated_bytes_, active_bytes_;
  std::int64_t host_allocations_ = 0;
};

}  // namespace zplan
