// DeepSpeed's torch_autocast: parameters stay fp32 and are sent in the autocast dtype. docs/memory-model.md#event-tables
#pragma once

#include <cstdint>

#include "inventory/parameters.h"
#include "spec/run.h"

namespace zplan {

// Gathers of the parameter and reductions of its gradient go in 16 bits: those of the modules that autocast lowers,
// linears among them (runtime/torch_autocast.py LOWER_PRECISION_SAFE_MODULES, get_comm_dtype).
inline bool sent_in_autocast_dtype(const Run& run, const Parameter& parameter) {
  const bool lookup = parameter.owner == Owner::EmbedTokens && !run.model.tied_embeddings;
  return run.ds.torch_autocast && parameter.shape.size() == 2 && !lookup;
}

}  // namespace zplan
