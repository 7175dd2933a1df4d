// The table of segments, and the promises that hold after every event.
#include <algorithm>
#include <string>

#include "allocator/caching_allocator.h"

namespace zplan {

std::vector<BlockIndex> CachingAllocator::heads() const {
  std::vector<bool> unused(blocks_.size());
  for (const BlockIndex index : unused_) unused[static_cast<std::size_t>(index)] = true;
  std::vector<BlockIndex> heads;
  for (std::size_t i = 1; i < blocks_.size(); ++i)
    if (!unused[i] && blocks_[i].prev == kNoBlock) heads.push_back(static_cast<BlockIndex>(i));
  std::sort(heads.begin(), heads.end(),
            [&](BlockIndex a, BlockIndex b) { return block(a).address < block(b).address; });
  return heads;
}

std::vector<SegmentView> CachingAllocator::snapshot() const {
  std::vector<SegmentView> segments;
  for (const BlockIndex head : heads()) {
    bool open = false;  // the block before this one belongs to the same run
    for (BlockIndex i = head; i != kNoBlock; i = block(i).next) {
      const Block& b = block(i);
      if (!b.mapped()) {
        open = false;
        continue;
      }
      if (!open) segments.push_back({b.address, 0, b.stream, b.pool, b.expandable(), {}});
      open = true;
      segments.back().size += b.size;
      segments.back().blocks.push_back({b.size, b.requested, b.state});
    }
  }
  return segments;
}

std::string CachingAllocator::check() const {
  std::int64_t mapped = 0, live = 0, waiting = 0, splits = 0, split_bytes = 0, segments = 0,
               requested = 0;
  std::size_t free_blocks = 0, holes = 0;
  std::int64_t end = 0;  // of the chain before
  for (const BlockIndex head : heads()) {
    const Block& first = block(head);
    if (first.address < end) return "segments overlap at " + std::to_string(first.address);
    if (!first.expandable()) segments += 1;
    end = first.address;
    for (BlockIndex i = head; i != kNoBlock; i = block(i).next) {
      const Block& b = block(i);
      const std::string at = " at " + std::to_string(b.address);
      if (b.address != end) return "a gap inside a segment" + at;
      if (b.size <= 0 || b.size % kMinBlock != 0) return "not a multiple of 512" + at;
      if (b.stream != first.stream || b.pool != first.pool) return "streams or pools mixed" + at;
      if (b.next != kNoBlock && block(b.next).prev != i) return "a broken chain" + at;
      end += b.size;
      const bool is_free = b.state == BlockState::Free;
      if (is_free && block(b.next).state == BlockState::Free)
        return "free neighbours not merged" + at;
      if (!b.mapped()) {
        holes += 1;
        continue;
      }
      mapped += b.size;
      if (b.state == BlockState::Allocated) live += b.size;
      if (b.state == BlockState::Pending) waiting += b.size;
      if (b.in_use()) requested += b.requested;
      if (!is_free) continue;
      free_blocks += 1;
      if (!b.split() || b.expandable()) continue;
      splits += 1;
      split_bytes += b.size;
    }
  }
  const auto ordered = [&](FreeEntry a, FreeEntry b) {
    return a.size() != b.size() ? a.size() < b.size()
                                : tie(block(a.block())) < tie(block(b.block()));
  };
  for (const FreeList& list : free_) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Block& b = block(list[i].block());
      if (b.state != BlockState::Free) return "a block in use is in a free list";
      if (list[i].size() != b.size) return "a stale key in a free list";
      if (i > 0 && !ordered(list[i - 1], list[i])) return "a free list out of order";
    }
    free_blocks -= list.size();
  }
  for (const auto& list : unmapped_) holes -= list.size();
  if (free_blocks != 0) return "free blocks and free lists differ";
  if (holes != 0) return "unmapped blocks and their lists differ";
  const Statistics& s = statistics_;
  if (s.reserved_bytes.current() != mapped) return "reserved_bytes is not the sum of mapped blocks";
  if (s.allocated_bytes.current() != live) return "allocated_bytes is not the sum of live blocks";
  if (s.active_bytes.current() != live + waiting)
    return "active_bytes is not live and pending blocks";
  if (s.requested_bytes.current() != requested)
    return "requested_bytes is not what active blocks asked";
  if (s.segment.current() != segments) return "segment is not the number of segments";
  if (s.inactive_split.current() != splits) return "inactive_split is wrong";
  if (s.inactive_split_bytes.current() != split_bytes) return "inactive_split_bytes is wrong";
  return {};
}

}  // namespace zplan
