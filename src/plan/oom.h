// An out-of-memory message explained: the moment of the simulated run that it speaks of, and why there was no room.
// docs/oom.md
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/run.h"
#include "step/component.h"
#include "step/simulation.h"
#include "units/units.h"

namespace zplan {

// A size as the message has it: two decimals of its unit.
struct PrintedBytes {
  Bytes value, error;  // the true one lies within value ± error
  bool may_be(Bytes b) const { return value - error <= b && b <= value + error; }
};

// PyTorch's message, whatever release wrote it.
struct OomMessage {
  PrintedBytes tried;                // the segment that a request needed
  PrintedBytes allocated;            // by PyTorch
  Bytes unallocated;                 // reserved by PyTorch but unallocated
  std::optional<std::int64_t> rank;  // where the log says it: "[rank3]:"
  std::optional<std::int64_t> gpu;
  std::optional<Bytes> total, free;  // of the device
  std::optional<Bytes> process;      // this process, with what is not PyTorch's
  Bytes others;                      // other processes, as far as named
  std::optional<Bytes> allowed;      // a limit set by the program
  std::int64_t messages = 1;         // in the text; this is the first
  Bytes reserved() const { return allocated.value + unallocated; }
  // The most that the allocator could have reserved: what it has and what is free, or what is allowed.
  Bytes limit() const;
};

struct OomMatch {
  Moment at;
  Component component = Component::Workspace;
  Bytes requested, allocated;             // simulated: asked for, and allocated before
  bool runs_out = false;                  // under the message's limit the simulation runs out at this very moment
  std::array<Bytes, kComponents> live{};  // before the request; sums to `allocated`
};

struct OomExplanation {
  OomMessage message;
  Run run;                        // under the message's limit, for the rank that it names
  std::optional<OomMatch> match;  // none: the simulation has no such moment
  // There was enough memory for the request, but not in one piece.
  bool fragmentation = false;
  std::optional<SimulatedOom> simulated;  // where the simulation runs out under the limit; none: it completes
  Bytes allocated_peak, reserved_peak;    // simulated without a limit
  Bytes outside;                          // predicted outside the allocator
  std::vector<std::string> reasons;       // without a match: what may be different from the simulation
};

// Simulates `run`. Throws InputError where it cannot be simulated.
OomExplanation explain(const OomMessage& message, Run run);

}  // namespace zplan
