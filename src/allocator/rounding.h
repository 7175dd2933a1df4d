// From requested bytes to the size of a block, its pool and the segment that would hold it.
// docs/allocator.md#rounding; CUDACachingAllocator.cpp: round_size, get_pool, get_allocation_size.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "allocator/options.h"

namespace zplan {

enum class Pool : std::uint8_t { Small, Large };

inline constexpr std::int64_t kMinBlock = 512;              // every size is a multiple
inline constexpr std::int64_t kSmallMax = 1 << 20;          // the largest block of the small pool
inline constexpr std::int64_t kSmallSegment = 2 << 20;      // segment and page of the small pool
inline constexpr std::int64_t kMinLargeSegment = 10 << 20;  // from here on a segment of its own ...
inline constexpr std::int64_t kLargeRounding = 2 << 20;     // ... rounded up to this
inline constexpr std::int64_t kRequestLimit = std::int64_t{1} << 60;  // "more than 1EB"

// n rounded up to a multiple of 1/divisions of the power of two below it.
constexpr std::int64_t round_up_power2(std::int64_t n, std::int64_t divisions) {
  const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
  if (n == floor) return n;
  const std::int64_t step = floor / divisions;
  return step == 0 ? 2 * floor : round_up(n, step);
}

constexpr std::int64_t round_size(std::int64_t bytes, const AllocatorOptions& options) {
  if (bytes < kMinBlock) return kMinBlock;
  const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 1;
  const std::int64_t divisions = options.roundup_power2_divisions[std::clamp(log2 - 20, 0, 15)];
  const std::int64_t least = options.rules.divisions_of_one_round_to_512 ? 1 : 0;
  if (divisions > least && bytes > kMinBlock * divisions)
    return divisions == 1 ? bytes : round_up_power2(bytes, divisions);
  return round_up(bytes, kMinBlock);
}

constexpr Pool pool_of(std::int64_t size) { return size <= kSmallMax ? Pool::Small : Pool::Large; }

constexpr std::int64_t segment_size(std::int64_t size, const AllocatorOptions& options) {
  if (size <= kSmallMax) return kSmallSegment;
  if (size < kMinLargeSegment) return options.large_segment_size;
  return round_up(size, kLargeRounding);
}

// The unit in which an expandable segment of the pool is mapped.
constexpr std::int64_t page_size(Pool pool, const AllocatorOptions& options) {
  return pool == Pool::Small ? kSmallSegment : options.large_segment_size;
}

}  // namespace zplan
