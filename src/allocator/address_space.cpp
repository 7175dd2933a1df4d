#include "allocator/address_space.h"

#include <algorithm>
#include <iterator>

namespace zplan {

std::int64_t AddressSpace::take(std::int64_t bytes) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->bytes < bytes) continue;
    const std::int64_t address = hole->address;
    hole->address += bytes;
    hole->bytes -= bytes;
    if (hole->bytes == 0) holes_.erase(hole);
    return address;
  }
  const std::int64_t address = top_;
  top_ += bytes;
  return address;
}

void AddressSpace::give_back(std::int64_t address, std::int64_t bytes) {
  auto next = std::find_if(holes_.begin(), holes_.end(),
                           [&](const Hole& hole) { return hole.address > address; });
  if (next != holes_.begin()) {
    auto previous = std::prev(next);
    if (previous->address + previous->bytes == address) {
      previous->bytes += bytes;
      if (next != holes_.end() && address + bytes == next->address) {
        previous->bytes += next->bytes;
        holes_.erase(next);
      }
      return;
    }
  }
  if (next != holes_.end() && address + bytes == next->address) {
    next->address = address;
    next->bytes += bytes;
    return;
  }
  holes_.insert(next, {address, bytes});
}

}  // namespace zplan
