// What one part of a run - the model, or a side of its engine - has allocated over time, as the allocator counts it:
// levels and maxima between the calls that model and engine make of each other. docs/memory-model.md#composed-peaks
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spec/run.h"
#include "step/engine_calls.h"
#include "step/script.h"

namespace zplan {

// One phase of a part in stretches of its events, relative to its level as the phase begins.
struct Levels {
  std::vector<std::int64_t> before;   // each stretch, and at the end: one more than `highest`
  std::vector<std::int64_t> highest;  // within each stretch, at least `before`
  friend bool operator==(const Levels&, const Levels&) = default;
};

// Phases that pass alike share their levels.
struct Timeline {
  struct InPhase {
    std::int64_t begin = 0;           // level of the part
    std::size_t levels = 0;           // index in `distinct`
  };
  std::vector<Levels> distinct;
  std::vector<InPhase> phases;        // those of the schedule
};

// The model: a stretch before each call of a phase and one after the last. Gradients are not freed: the engine does.
struct ModelTimeline {
  Script script;
  Schedule schedule;
  Timeline timeline;
};
ModelTimeline model_timeline(const Run& run);

// A side of the engine: a stretch in each of its calls.
enum class Side { States, Weights };
Timeline engine_timeline(const Run& run, const Script& script, const Schedule& schedule, Side side);

}  // namespace zplan
