// A request the allocator could not serve, with every field of PyTorch's message.
// docs/allocator.md#out-of-memory
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "allocator/options.h"
#include "units/units.h"

namespace zplan {

struct OutOfMemory {
  std::int64_t event = -1;  // index in the replayed history; -1 outside a replay
  Bytes requested;          // what the program asked for
  Bytes segment;            // "Tried to allocate": the segment the request needed
  std::optional<Bytes> device_total,
      device_free;               // of cudaMemGetInfo; absent when the device is not modelled
  std::optional<Bytes> allowed;  // the limit on reserved bytes
  Bytes allocated;               // "is allocated by PyTorch"
  Bytes reserved;                // by PyTorch, in all
  Bytes unallocated() const {
    return reserved - allocated;
  }                        // "reserved by PyTorch but unallocated"
  bool rejected = false;   // refused before the device was asked (throw_on_cudamalloc_oom)
  bool too_large = false;  // 2^60 bytes and more: refused by size alone
  friend bool operator==(const OutOfMemory&, const OutOfMemory&) = default;
};

// The message in the release's form, without the process list, which needs NVML.
std::string message(const OutOfMemory& oom, const AllocatorRules& rules, int device = 0);

}  // namespace zplan
