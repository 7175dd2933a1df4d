// How far two sequences of allocations and frees agree: the longest common subsequence of (allocate or free, bytes,
// stream), and where they part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/history.h"

namespace zplan {

// One request of a program: it allocates, or drops its last reference.
struct Request {
  bool allocates = true;
  StreamId stream = 0;
  std::int64_t bytes = 0;  // as requested
  friend bool operator==(const Request&, const Request&) = default;
};

struct Agreement {
  std::size_t recorded = 0, simulated = 0, matched = 0;
  // First place where they part: indices of the next request of each.
  std::optional<std::size_t> recorded_at, simulated_at;
  // Matched requests over the longer sequence; 1 for two empty ones.
  double ratio() const {
    const auto longer = recorded > simulated ? recorded : simulated;
    return longer == 0 ? 1.0 : static_cast<double>(matched) / static_cast<double>(longer);
  }
};

// Myers' greedy algorithm: time O((n + m) d) with d differences.
Agreement agreement(const std::vector<Request>& recorded, const std::vector<Request>& simulated);

}  // namespace zplan
