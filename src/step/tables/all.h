// Every event table, by name.
#pragma once

#include "step/table.h"

namespace zplan {

const TableBook& table_book();

// The sizes of section "notation" for a run: N tokens, H hidden, A = h*D, K = g*D, F, V, S, B, r, ...
struct Run;
Sizes sizes_of(const Run& run);

}  // namespace zplan
