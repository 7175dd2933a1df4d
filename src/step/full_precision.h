// fp32 training from the tables of 16 bits: every tensor of the model's dtype is twice as wide, a cast is no copy, and a
// norm keeps its input. docs/memory-model.md#event-tables
#pragma once

#include "step/table.h"

namespace zplan {

struct Run;

// Trained in fp32, without torch_autocast; adapters keep the tables of 16 bits.
bool full_precision(const Run& run);

// A layer's rows.
TableRows in_full_precision(TableRows rows, const Run& run);

// The rows around the layers: head, loss, embedding's gradient.
TableRows ends_in_full_precision(TableRows rows);

}  // namespace zplan
