// Which settings of a run are simulated with the event tables of others, because their own are not known.
#pragma once

#include <vector>

#include "spec/note.h"
#include "spec/run.h"

namespace zplan {

// A warning for each; empty where every event has its own table. docs/memory-model.md#event-tables
std::vector<Note> unknown_events(const Run& run);

}  // namespace zplan
