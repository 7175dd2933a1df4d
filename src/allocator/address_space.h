// Where cudaMalloc would put a segment when there is no recording to say so.
// Only the order of segments matters, and only up to 2.11, where equal free blocks are told apart
// by address. docs/allocator.md#addresses
#pragma once

#include <cstdint>
#include <vector>

namespace zplan {

// Segments ascend; a freed range is used again by the first request that fits, lowest address
// first.
class AddressSpace {
 public:
  std::int64_t take(std::int64_t bytes);
  void give_back(std::int64_t address, std::int64_t bytes);

 private:
  struct Hole {
    std::int64_t address, bytes;
  };
  std::vector<Hole> holes_;  // ascending, never adjacent
  std::int64_t top_ = std::int64_t{1} << 32;
};

}  // namespace zplan
