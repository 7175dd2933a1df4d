// Page-locked host memory of torch's caching host allocator: requests are rounded up to a power of two, freed blocks
// are kept and serve later requests of the same size (aten/src/ATen/core/CachingHostAllocator.h).
// Derived in docs/stages-0-2.md#offload12.
#pragma once

#include <bit>
#include <cstdint>
#include <map>

#include "step/recorder.h"

namespace zplan {

class PinnedHost {
 public:
  explicit PinnedHost(Recorder& recorder) : recorder_(recorder) {}
  static constexpr std::int64_t rounded(std::int64_t bytes) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  }
  void allocate(std::int64_t bytes) {
    auto& idle = idle_[rounded(bytes)];
    if (idle > 0) --idle;
    else recorder_.host_pinned(rounded(bytes));
  }
  void free(std::int64_t bytes) { ++idle_[rounded(bytes)]; }

 private:
  Recorder& recorder_;
  std::map<std::int64_t, std::int64_t> idle_;  // freed blocks by size
};

}  // namespace zplan
