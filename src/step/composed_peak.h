// The allocated peak of a run without its events: composed from what the model and each side of the engine allocate
// between their calls of each other, equal to the simulation's to the byte. docs/memory-model.md#composed-peaks
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spec/run.h"
#include "step/part_key.h"
#include "step/timeline.h"
#include "units/units.h"

namespace zplan {

struct ComposedPeak {
  Bytes bytes;                              // of the whole run
  std::int64_t step = -1, micro_step = -1;  // where it is first reached; -1: outside the loop
  Phase phase = Phase::Start;
  std::vector<Bytes> phases;                // of each phase, as in simulate(run).phases
};

// Keeps the parts it has read off the engines: runs that differ in some settings share the parts that do not depend on
// them. One model, world, GPU and set of versions at a time: a run of another one starts afresh. Not for two threads.
class PeakComposer {
 public:
  // Why only a simulation can tell the allocated peak of `run`; absent: allocated() has it.
  static std::optional<std::string> unsupported(const Run& run);

  // simulate(run).peak.allocated and allocated_peak of its phases; absent where unsupported. Throws what
  // simulate_events() throws.
  std::optional<ComposedPeak> allocated(const Run& run);

  // What is live, each block rounded as the allocator rounds it. Also of runs whose allocator does not split every
  // block: the rest of one counts as allocated there, so that live is at most allocated. Absent where unsupported for
  // another reason.
  std::optional<ComposedPeak> live(const Run& run);

  // Parts read off so far.
  std::int64_t parts_made() const { return parts_made_; }

 private:
  struct Model {
    Script script;
    std::size_t schedule = 0;
    Timeline timeline;
  };
  template <class Part>
  using Parts = std::unordered_map<PartKey, Part, PartKeyHash>;

  void forget_others(const Run& run);
  const Model& model(const Run& run);
  const Timeline& side(Parts<Timeline>& parts, PartKey key, const Run& run, const Model& model, Side side);

  Run context_;            // model, world, GPU and versions of the parts
  std::vector<Schedule> schedules_;
  Parts<Model> models_;
  Parts<Timeline> weights_, states_;
  std::int64_t parts_made_ = 0;
};

}  // namespace zplan
