// One line of a recorded allocator history, as torch.cuda.memory._snapshot()["device_traces"] has
// it. The allocator writes the same lines, so a history is checked by comparing the two lists.
#pragma once

#include <cstdint>

#include "allocator/history.h"

namespace zplan {

enum class TraceAction : std::uint8_t {
  Alloc,          // address of the block, bytes requested
  FreeRequested,  // the same
  FreeCompleted,  // address before the block merges with its neighbours
  SegmentAlloc,
  SegmentFree,
  SegmentMap,
  SegmentUnmap,
  Oom,  // address: free bytes of the device; size: the rounded request
  Snapshot,
};

struct TraceEntry {
  TraceAction action = TraceAction::Alloc;
  StreamId stream = 0;
  std::int64_t address = 0;
  std::int64_t size = 0;
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

}  // namespace zplan
