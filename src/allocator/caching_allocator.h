// PyTorch's CUDA caching allocator for one device, rule by rule: c10/cuda/CUDACachingAllocator.cpp.
// Differences between releases are the switches of AllocatorRules; docs/allocator.md states every
// rule with its source. Private pools (CUDA graphs, MemPool) are not modelled.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "allocator/address_space.h"
#include "allocator/free_list.h"
#include "allocator/history.h"
#include "allocator/options.h"
#include "allocator/out_of_memory.h"
#include "allocator/rounding.h"
#include "allocator/statistics.h"
#include "allocator/trace_entry.h"

namespace zplan {

enum class BlockState : std::uint8_t {
  Allocated,  // handed out
  Pending,    // freed by the program, still used by another stream
  Free,
  Unmapped,  // address range of an expandable segment without memory
};

// A piece of a segment. The pieces of a segment form a chain in address order. One cache line.
struct alignas(64) Block {
  std::int64_t address = 0, size = 0;
  std::int64_t requested = 0;  // of its last use
  std::uint64_t counter = 0;   // for the tie-breaks that count
  std::int64_t searches =
      0;  // searches of its pool when it last became free: its age for collection
  BlockIndex prev = kNoBlock, next = kNoBlock;
  std::int32_t reservation = -1;  // the expandable segment it belongs to, or none
  StreamId stream = 0;
  Pool pool = Pool::Small;
  BlockState state = BlockState::Free;
  bool split() const { return prev != kNoBlock || next != kNoBlock; }
  bool expandable() const { return reservation >= 0; }
  bool in_use() const { return state == BlockState::Allocated || state == BlockState::Pending; }
  bool mapped() const { return state != BlockState::Unmapped; }
};

struct BlockView {
  std::int64_t size = 0, requested = 0;
  BlockState state = BlockState::Free;
  friend bool operator==(const BlockView&, const BlockView&) = default;
};

// A segment as a snapshot lists it; of an expandable segment, each contiguous mapped run.
struct SegmentView {
  std::int64_t address = 0, size = 0;
  StreamId stream = 0;
  Pool pool = Pool::Small;
  bool expandable = false;
  std::vector<BlockView> blocks;
  friend bool operator==(const SegmentView&, const SegmentView&) = default;
};

class CachingAllocator {
 public:
  explicit CachingAllocator(const AllocatorOptions& options = {});

  // The block that serves the request, or kNoBlock: for zero bytes, where nothing happens, and when
  // the device and the limit have no more, where out_of_memory() tells why and the allocator stays
  // usable.
  BlockIndex allocate(std::int64_t bytes, StreamId stream);
  // The program is done with the block and no other stream has recorded it.
  void free(BlockIndex block);
  // The same in two parts for a block that another stream has recorded: the program's free, and the
  // moment the allocator sees the other stream's event passed (at an allocation, or when it
  // synchronises).
  void free_requested(BlockIndex block);
  void free_completed(BlockIndex block);
  // torch.cuda.empty_cache(): completes what is pending, then releases what is wholly free.
  void empty_cache();

  const Statistics& statistics() const { return statistics_; }
  Statistics& statistics() { return statistics_; }
  const std::optional<OutOfMemory>& out_of_memory() const { return out_of_memory_; }
  const Block& block(BlockIndex index) const { return blocks_[static_cast<std::size_t>(index)]; }
  const AllocatorOptions& options() const { return options_; }
  const std::vector<BlockIndex>& pending() const { return pending_; }
  // The segments by address.
  std::vector<SegmentView> snapshot() const;
  // Empty if every promise holds: sums, chains, order and coalescing. What is wrong, otherwise.
  std::string check() const;

  // Options changed at run time. A limit below what is reserved only refuses new segments.
  void set_options(const AllocatorOptions& options);
  // Writes PyTorch's trace lines to `trace` from now on; null stops it.
  void write_trace(std::vector<TraceEntry>* trace) { trace_ = trace; }
  // A device other than the modelled one (an AddressSpace with device_free bytes): whether it has
  // so many more bytes, and where it puts a segment or reservation of a size.
  void use_device(std::function<bool(std::int64_t)> has,
                  std::function<std::int64_t(std::int64_t)> place) {
    has_ = std::move(has);
    place_ = std::move(place);
  }
  // Whether a free block would serve the request as things are.
  bool would_fit(std::int64_t bytes, StreamId stream) const;

 private:
  struct Reservation {
    std::int64_t address = 0, bytes = 0;
    std::int64_t page = 0;  // as it was when the range was reserved
    bool live = true;
  };
  const Reservation& range_of(BlockIndex index) const {
    return reservations_[static_cast<std::size_t>(block(index).reservation)];
  }
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Block& at(BlockIndex index) { return blocks_[static_cast<std::size_t>(index)]; }
  std::size_t list_index(Pool pool, StreamId stream) const {
    return 2 * static_cast<std::size_t>(stream) + static_cast<std::size_t>(pool);
  }
  FreeList& free_list(const Block& b) { return free_[list_index(b.pool, b.stream)]; }
  // Equal sizes are ordered by this. Under the segment counter the address decides within a
  // segment: addresses are multiples of 512 below 2^47, so both fit one number.
  std::uint64_t tie(const Block& b) const {
    if (tie_break_ == TieBreak::Address) return static_cast<std::uint64_t>(b.address);
    if (tie_break_ == TieBreak::BlockCounter) return b.counter;
    return (b.counter << 38) | (static_cast<std::uint64_t>(b.address) >> 9);
  }
  FreeEntry entry(BlockIndex index) const { return {block(index).size, index}; }
  void log(TraceAction action, StreamId stream, std::int64_t address, std::int64_t size) {
    if (trace_) write_line({action, stream, address, size});
  }
  // Apart, or every caller would carry the code that makes room for a line.
  void write_line(const TraceEntry& entry);
  // Which of two blocks of the same size is used first.
  auto tie_order() const {
    return [this](BlockIndex a, BlockIndex b) { return tie(block(a)) < tie(block(b)); };
  }
  BlockIndex new_block();  // whatever was there before is still in it
  BlockIndex new_block(const Block& block);
  void delete_block(BlockIndex index) { unused_.push_back(index); }
  void know_stream(StreamId stream);
  std::vector<BlockIndex> heads() const;  // the first block of each segment, by address

  // allocate
  std::size_t best_fit(const FreeList& list, std::int64_t size) const;
  std::size_t best_fit_with_options(const FreeList& list, std::size_t at, std::int64_t size) const;
  std::int64_t growth(BlockIndex index) const;
  bool should_split(Pool pool, std::int64_t block_size, std::int64_t size) const;
  BlockIndex split_front(BlockIndex index, std::int64_t size);
  BlockIndex take_free(FreeList& list, std::size_t position, std::int64_t size);
  BlockIndex take_new(Pool pool, std::int64_t bytes, std::int64_t size, StreamId stream);
  void hand_out(BlockIndex index, std::int64_t bytes);

  // free
  void program_frees(Block& b);
  void make_free(BlockIndex index);
  std::int64_t merge(BlockIndex into, BlockIndex from);

  // device memory
  bool device_has(std::int64_t bytes) const;
  std::int64_t place(std::int64_t bytes);
  BlockIndex device_alloc(Pool pool, std::int64_t size, std::int64_t segment, StreamId stream,
                          bool retry);
  void release_block(BlockIndex index);
  void collect_garbage();
  bool release_available(Pool pool, std::int64_t size, StreamId stream);
  void release_cached();
  void release_blocks(Pool pool);

  // expandable segments
  BlockIndex expandable_alloc(Pool pool, std::int64_t size, StreamId stream);
  BlockIndex find_run(Pool pool, std::int64_t size, StreamId stream);
  BlockIndex reserve(Pool pool, std::int64_t size, StreamId stream);
  bool map(BlockIndex index, std::int64_t bytes);
  void unmap_free_pages(BlockIndex index);
  void add_unmapped(BlockIndex index);
  void remove_unmapped(BlockIndex index);

  AllocatorOptions options_;
  std::optional<Bytes> limit_;
  TieBreak tie_break_ = TieBreak::Address;
  bool plain_rounding_ = true;   // no roundup_power2_divisions
  bool plain_search_ = true;     // neither expandable blocks nor max_split_size can matter
  bool count_searches_ = false;  // collection is possible
  Statistics statistics_;
  std::vector<Block> blocks_;       // the first is kNoBlock: what borders a segment, never free
  std::vector<BlockIndex> unused_;  // places in blocks_ to use again
  std::vector<FreeList> free_;      // by list_index; the order is PyTorch's set order
  std::vector<std::vector<BlockIndex>> unmapped_;  // by list_index, ascending addresses
  std::vector<BlockIndex> pending_;                // in the order they were freed
  std::vector<Reservation> reservations_;
  std::array<std::int64_t, 2> searches_{};  // by pool
  std::uint64_t counter_ = 0;
  bool rejected_ = false;
  std::optional<OutOfMemory> out_of_memory_;
  std::vector<TraceEntry>* trace_ = nullptr;
  std::function<bool(std::int64_t)> has_;
  std::function<std::int64_t(std::int64_t)> place_;
  AddressSpace address_space_;
};

}  // namespace zplan
