// One measured run (schema zplan.measurement/1): what went in, resolved, and what was seen, phase by phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/hardware.h"
#include "spec/note.h"
#include "spec/run.h"
#include "units/units.h"

namespace zplan {

// Figures at the end of a phase; the peaks are within the phase.
struct MeasuredPhase {
  std::string phase;            // start, load, init, forward, backward, step, save, eval; oom = where it ended
  std::int64_t step = -1;       // -1: outside the steps
  std::int64_t micro_step = -1;
  Bytes allocated, allocated_peak;
  Bytes reserved, reserved_peak;
  Bytes active_peak, inactive_split;
  std::int64_t alloc_retries = 0;  // since the process started
  Bytes host_rss, host_rss_peak;
  Bytes host_pinned;               // torch's pinned-host allocator
  std::optional<Bytes> device_used;  // by the driver, all processes of the card
  std::optional<Seconds> seconds;    // with a synchronisation at the phase's end
  friend bool operator==(const MeasuredPhase&, const MeasuredPhase&) = default;
};

// What the program held of one component after the last step, counted from its tensors.
struct MeasuredComponent {
  std::string name;  // as in by_component: parameters, gradients, optimizer
  Bytes bytes;
  friend bool operator==(const MeasuredComponent&, const MeasuredComponent&) = default;
};

struct Record {
  enum class Outcome { Ok, OutOfMemory };
  enum class Ranks { Fake, Nccl };  // one process with torch's fake process group, or real ranks

  std::string id;
  Run run;                          // every input, resolved; `steps` as many as were measured
  Ranks ranks = Ranks::Fake;
  Outcome outcome = Outcome::Ok;
  std::string oom_message;
  std::string optimizer_classes;    // "DeepSpeedZeroOptimizer_Stage3/FusedAdam"
  std::string measured_by;          // a program other than DeepSpeed itself: "zplan-validate"; else empty
  std::vector<MeasuredPhase> phases;
  std::vector<MeasuredComponent> components;  // on the device, where they were counted
  std::vector<Seconds> step_seconds;       // with the synchronisations of the phases
  std::vector<Seconds> loop_step_seconds;  // whole steps without: what a training loop takes
  std::optional<Cluster> machine;   // where time was measured
  std::vector<Note> notes;          // what the reader found remarkable
  friend bool operator==(const Record&, const Record&) = default;
};

}  // namespace zplan
