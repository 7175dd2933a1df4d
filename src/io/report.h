// What the reports of simulate, plan and compare are made from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/files.h"
#include "plan/comparison.h"
#include "plan/host_need.h"
#include "plan/rank.h"
#include "plan/search.h"
#include "plan/why_not.h"
#include "spec/assumption.h"
#include "spec/hardware.h"
#include "spec/note.h"
#include "step/simulation.h"
#include "time/step_time.h"

namespace zplan {

// What the text may use.
struct TextStyle {
  bool colour = false;
};

// One of several ranks looked at.
struct RankFigures {
  std::int64_t rank = 0;
  Bytes allocated, reserved, capacity;
  bool oom = false;
};

struct SimulationReport {
  std::string version;                   // zplan's
  Run run;
  Cluster cluster;
  Simulation simulation;
  std::optional<StepTime> time;
  HostNeed host;                         // of a rank
  Bytes nvme;                            // of a node
  std::vector<Assumption> assumptions;
  std::vector<Note> notes;               // of the inputs; the simulation has its own
  std::vector<RankFigures> ranks;        // where all were asked for: one for each way of owning the model
  // The larger of what the events and what the closed form say for a rank.
  Bytes host_peak() const;
  Bytes host_pinned() const;
};

// The headline numbers of a measured run with the same inputs as the plan.
struct MeasuredLike {
  std::string id;
  bool ran = true;
  Bytes allocated_peak, reserved_peak;
  std::optional<Bytes> capacity_limit;
  std::optional<Seconds> step;
  std::int64_t world_size = 1;
};

struct PlanReport {
  std::string version;
  Question question;
  SearchResult result;
  std::vector<Plan> plans;               // best first; none: nothing fits
  std::vector<Plan> with_kernels;        // the best with each extra package that was not allowed
  std::vector<std::string> kernel_names; // of with_kernels: "liger"
  std::optional<SimulationReport> best;  // the best in full
  std::vector<SettingReason> reasons;
  std::vector<Rejection> rejected;
  std::vector<Change> changes;           // where nothing fits
  std::vector<MeasuredLike> measured;
  std::string out;                       // the folder written to; empty: none
  std::vector<std::string> files;
  double seconds = 0;                    // of the search
  std::vector<Assumption> assumptions;
  std::vector<Note> notes;
};

struct ComparisonReport {
  std::string version;
  std::vector<Comparison> runs;
  ComparisonSummary summary;
  std::vector<std::string> exceeded;
};

}  // namespace zplan
