// Where cudaMalloc would put a segment when there is no recording to say so.
// Only the order of segments matters, and only up to 2.11, where equal free blocks are told apart
// by address. docs/allocator.md#addresses
#pragma once

#include <cstdint>
#include <vector>

namespace zplan {

// New space lies below all other, in units of 32 MiB; the rest of a unit is a gap that later
// segments fill, the lowest gap first. Freed space is not used again.
class AddressSpace {
 public:
  std::int64_t take(std::int64_t bytes);

 private:
  struct Gap {
    std::int64_t address, bytes;
  };
  std::vector<Gap> gaps_;  // the lowest last
  std::int64_t bottom_ = std::int64_t{1} << 46;
};

}  // namespace zplan
