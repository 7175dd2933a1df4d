// Stages 1 and 2: DeepSpeedZeroOptimizer (runtime/zero/stage_1_and_2.py). Weights whole in one flat
// buffer, master weights and Adam states of this rank's part on the GPU or, offloaded, in host
// memory.
#pragma once

#include "zero/engine.h"

namespace zplan::trainer {

std::unique_ptr<Engine> make_stage12(EngineSetup setup, ParameterList parameters);

}  // namespace zplan::trainer
