// How often stage 3 gathers in one micro-step: DeepSpeed's coordinator replayed over the modules of a decoder, once its
// trace is complete (runtime/zero/partitioned_param_coordinator.py). docs/time-model.md#gathers
#pragma once

#include "spec/run.h"
#include "time/shape.h"

namespace zplan {

struct Gathers {
  double tensors = 0, elements = 0;
  double calls = 0;       // of all_gather_coalesced; tensors where stage3_allgather_sequential takes them one by one
  double copied_out = 0;  // tensors that arrived in one buffer with others
};
struct MicroStepGathers {
  Gathers forward, backward;
};
// Of a later micro-step; backward with what recomputation gathers. A layer's modules without parameters are spread evenly
// among those with; none below stage 3. The last answers are remembered, by thread.
MicroStepGathers micro_step_gathers(const Run& run, const ModelShape& shape);

// Stage 3 treats a layer as one leaf when its elements a module stay below the granularity threshold.
bool layer_is_leaf(const Run& run, const ModelShape& shape);

}  // namespace zplan
