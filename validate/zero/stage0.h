// No partitioning: DeepSpeed's FP16_Optimizer for 16-bit models (fp16/fused_optimizer.py), a plain
// optimizer for fp32 ones. Gradients accumulate in the parameters and are all-reduced once, after
// the last backward.
#pragma once

#include "zero/engine.h"

namespace zplan::trainer {

std::unique_ptr<Engine> make_stage0(EngineSetup setup, ParameterList parameters);

}  // namespace zplan::trainer
