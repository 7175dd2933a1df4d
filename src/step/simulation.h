// What one simulated training does to memory, phase by phase: the events of simulate_events() replayed through
// the caching allocator, with and without a limit. The contents of zplan.simulation/1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/history.h"
#include "allocator/options.h"
#include "spec/note.h"
#include "spec/run.h"
#include "step/component.h"
#include "step/recorder.h"
#include "units/units.h"

namespace zplan {

struct PhaseMemory {
  std::int64_t step = -1, micro_step = -1;  // -1: load and init
  Phase phase = Phase::Start;
  PhaseFigures figures;
  Bytes host, host_peak, host_pinned;       // resident memory of this rank's process; pinned is part of it
};

// Where in the run an event stands, and what it is.
struct Moment {
  std::int64_t step = -1, micro_step = -1;
  Phase phase = Phase::Start;
  std::string event;                        // "fp32 gradient of sub-group 0"
};

struct Peak {
  Bytes allocated, reserved;                // allocated_peak, and reserved_peak over the run
  Bytes reserved_then;                      // reserved at the moment of the allocated peak
  Moment at;
  std::array<Bytes, kComponents> by_component{};  // live at the moment of the allocated peak; sums to `allocated`
  Bytes fragmentation() const { return reserved_then - allocated; }
};

struct SimulatedOom {
  Moment at;
  Bytes requested, free, allocated, reserved;  // free: what the limit leaves beyond reserved
};

// Bytes of the process that torch's allocator does not see. docs/memory-model.md#outside
struct OutsideAllocator {
  Bytes cuda_context, nccl, other;
  Bytes total() const { return cuda_context + nccl + other; }
};

struct Simulation {
  std::int64_t rank = 0, world_size = 1;
  std::optional<SimulatedOom> oom;          // absent: the run completed
  std::vector<PhaseMemory> phases;          // those that completed
  Peak peak;
  Bytes smallest_capacity;                  // least limit on reserved at which the run completes; 0 = not asked for
  OutsideAllocator outside;
  Bytes device_capacity;                    // what the GPU offers
  Bytes device_bytes() const { return peak.reserved + outside.total(); }
  bool fits() const { return !oom && smallest_capacity + outside.total() <= device_capacity; }
  std::int64_t events = 0;
  std::vector<Note> notes;
};

enum class Detail {
  Figures,     // phases and peaks
  Components,  // and the components at the peak
  Full,        // and the smallest capacity
};

// Options of the allocator as the run sets them. Throws InputError for a bad alloc_conf.
AllocatorOptions allocator_options(const Run& run);

Simulation simulate(const Run& run, Detail detail = Detail::Full);

// What is live by component as a phase begins, at its highest moment and as it ends; `event` makes that moment.
struct PhaseParts {
  std::array<Bytes, kComponents> at_begin{}, at_peak{}, at_end{};
  std::string event;
  Component event_component = Component::Parameters;
};
// `phase`: an index into `simulate(run).phases`, one that completed.
PhaseParts phase_parts(const Run& run, std::size_t phase);

// Bytes outside the allocator for a rank of this run.
OutsideAllocator outside_allocator(const Run& run);

}  // namespace zplan
