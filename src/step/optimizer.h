// What an optimizer allocates when it steps one flat fp32 tensor on the GPU. Derived in docs/memory-model.md#optimizers.
#pragma once

#include <cstdint>

#include "spec/run.h"
#include "step/recorder.h"

namespace zplan {

// Labels of what it allocates: states stay, transients go.
struct OptimizerLabels {
  std::uint16_t state, transient;
};

// One step over n elements of group (or sub-group) `index`. first: the states are made now.
void optimizer_step(Recorder& recorder, OptimizerKind kind, OptimizerLabels labels, std::int64_t n, std::int64_t index,
                    bool first);

}  // namespace zplan
