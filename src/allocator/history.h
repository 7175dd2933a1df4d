// The events an allocator replays: what a program asked of it, in order.
// A simulated step writes them; a recorded PyTorch history is read into them.
#pragma once

#include <cstdint>
#include <vector>

#include "units/units.h"

namespace zplan {

// A CUDA stream as the allocator tells them apart. 0 is the compute (default) stream.
using StreamId = std::uint8_t;
// A block by the order in which the history first allocates it; dense from 0, never used twice.
using BlockId = std::int32_t;

enum class Action : std::uint8_t {
  Allocate,       // block, bytes requested, stream
  Free,           // block: asked for and done in one (no other stream has recorded the block)
  FreeRequested,  // block: freed by the program while another stream may still use it; `allocated`
                  // falls
  FreeCompleted,  // block: the other stream's event has passed, the block is reusable; `active`
                  // falls
  EmptyCache,     // torch.cuda.empty_cache()
  Mark,           // end of a phase: `block` is the phase's index; peaks restart, as after
                  // reset_peak_memory_stats
};

struct Event {
  Action action = Action::Allocate;
  StreamId stream = 0;
  BlockId block = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Event&, const Event&) = default;
};

// Figures at the end of one phase, as torch.cuda.memory_stats gives them. Peaks are within the
// phase.
struct PhaseFigures {
  Bytes allocated, allocated_peak;
  Bytes reserved, reserved_peak;
  Bytes active, active_peak;
  Bytes inactive_split;
  std::int64_t alloc_retries = 0;
  friend bool operator==(const PhaseFigures&, const PhaseFigures&) = default;
};

}  // namespace zplan
