// Resident host memory of a rank's Python process itself: interpreter, torch, DeepSpeed, and what CUDA, NCCL and the
// kernels load when they are first used. It grows until the first step is done. docs/memory-model.md#host
#pragma once

#include <cstdint>

#include "step/recorder.h"
#include "units/units.h"

namespace zplan {

// At the end of `phase` of `step` (-1 outside the loop). nccl: real ranks, not one process that plays one of them.
Bytes process_memory(Phase phase, std::int64_t step, bool nccl);

}  // namespace zplan
