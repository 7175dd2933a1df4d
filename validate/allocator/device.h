// The device the comparison runs on: a real GPU, or the stand-in that this program was linked with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "allocator/options.h"

namespace zplan {

struct Device {
  std::string name, torch;
  bool stand_in = false;
  AllocatorRules rules;  // of the torch release
  Bytes total;
  // On the stand-in: so many bytes are free, and segments go where the seed says.
  std::function<void(Bytes capacity, std::uint64_t seed)> set_capacity;
  std::function<std::uint64_t()> last_range;  // of the stand-in
};
Device open_device();

}  // namespace zplan
