#include "allocator/address_space.h"

#include <algorithm>
#include <iterator>

namespace zplan {

std::int64_t AddressSpace::take(std::int64_t bytes) {
  constexpr std::int64_t kUnit = 32 << 20;
  const auto gap =
      std::find_if(gaps_.rbegin(), gaps_.rend(), [&](const Gap& g) { return g.bytes >= bytes; });
  if (gap != gaps_.rend()) {
    const std::int64_t address = gap->address;
    gap->address += bytes;
    gap->bytes -= bytes;
    if (gap->bytes == 0) gaps_.erase(std::next(gap).base());
    return address;
  }
  const std::int64_t taken = (bytes + kUnit - 1) / kUnit * kUnit;
  bottom_ -= taken;
  if (taken > bytes) gaps_.push_back({bottom_ + bytes, taken - bytes});
  return bottom_;
}

}  // namespace zplan
