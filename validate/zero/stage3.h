// Stage 3: DeepSpeedZeroOptimizer_Stage3 (runtime/zero/stage3.py). Every rank keeps a slice of
// every parameter; the optimizer works sub-group by sub-group, on the GPU or in host memory.
#pragma once

#include "zero/engine.h"

namespace zplan::trainer {

std::unique_ptr<Engine> make_stage3(EngineSetup setup, ParameterList parameters);

}  // namespace zplan::trainer
