// Liger's RMSNorm, rotary embedding and SwiGLU in a layer, any of them: their rows over those of its other tables.
#pragma once

#include "spec/run.h"
#include "step/table.h"

namespace zplan {

// The kernels of a run whose events in the layers are known: 16-bit weights, causal attention, no experts, no frozen
// layers. Others use the tables of transformers' own modules.
Kernels layer_kernels(const Run& run);

enum class LigerPart { Kept, NothingKept, Backward, InRegion, Reentrant };  // the last three: of the backward
// first: the layer above the embedding.
TableRows with_liger(TableRows rows, const Run& run, LigerPart part, bool first);
// Backward of the top layer, below Liger's final norm.
TableRows with_liger_top(TableRows rows, const Run& run);

}  // namespace zplan
