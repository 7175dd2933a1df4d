// What an optimizer allocates when it steps on the GPU. Derived in docs/memory-model.md#optimizers.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/run.h"
#include "step/recorder.h"

namespace zplan {

// Labels of what it allocates: states stay, transients go.
struct OptimizerLabels {
  std::uint16_t state, transient;
};

// One step over the tensors of group (or sub-group) `index`, or over its one flat tensor of n elements. first: the
// states are made now, of state_width bytes an element (bf16_optimizer_states: 2).
void optimizer_step(Recorder& recorder, OptimizerKind kind, OptimizerLabels labels, const std::vector<std::int64_t>& tensors,
                    std::int64_t index, bool first, std::int64_t state_width = 4);
void optimizer_step(Recorder& recorder, OptimizerKind kind, OptimizerLabels labels, std::int64_t n, std::int64_t index,
                    bool first, std::int64_t state_width = 4);

}  // namespace zplan
