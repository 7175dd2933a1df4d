// The search: families of strategies in the order of the least time they can take, each tried with the knobs that
// matter until one fits, until no family left can win. docs/memory-model.md#search
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/axes.h"
#include "plan/bounds.h"
#include "plan/host_need.h"
#include "plan/margin.h"
#include "plan/memory_check.h"
#include "plan/strategy.h"
#include "spec/hardware.h"
#include "spec/run.h"
#include "time/step_time.h"
#include "units/units.h"

namespace zplan {

enum class Objective { Time, Memory, Headroom };

struct Question {
  Run base;                    // what is fixed: model, workload, versions, GPU, world
  Cluster cluster;
  std::int64_t global_batch = 64;
  Axes axes;
  TimeCoefficients coefficients;
  Objective objective = Objective::Time;
  std::optional<Bytes> max_host_ram;   // of a node; absent: what the node has, if that is known
  int threads = 2;             // as many families are tried at once; the result does not depend on it
};

// What a GPU offers to torch's allocator, and how much of it a plan should leave.
struct Budget {
  Bytes device, outside;
  Bytes limit() const { return device - outside; }
  Bytes margin() const { return prediction_margin(device); }
  Bytes safe() const { return limit() - margin(); }
};
Budget budget(const Run& run);

// One strategy looked at closely.
struct Candidate {
  Strategy strategy;
  StepTime time;
  MemoryBound bound;
  MemoryCheck memory;
  HostNeed host;
  Bytes nvme;
  int departures = 0;
  bool fits = false;           // within what the device offers
  bool safe = false;           // and by the margin
};

// How the families of one stage and offload ended.
struct Group {
  int stage = 0;
  Offload offload = Offload::None;
  std::optional<Candidate> best;     // the fastest that fits by the margin, or at all
  std::optional<Candidate> nearest;  // where none fits: the one least too large
  Bytes host_short;                  // where only host memory is missing: by how much for a node
  std::string cannot_run;            // why none of it can run at all
  std::int64_t strategies = 0;
};

struct SearchCounts {
  std::int64_t strategies = 0;       // in the space
  std::int64_t discarded_by_bound = 0, discarded_by_host = 0, discarded_by_time = 0;
  std::int64_t simulated = 0;        // event histories replayed
  std::int64_t families = 0, families_tried = 0;
};

struct SearchResult {
  std::vector<Candidate> found;      // the best of each family that was tried and fits, fastest first
  std::vector<Group> groups;         // in the order of stages and offloads
  SearchCounts counts;
  Budget budget;
  Shard shard;                       // of the rank that the verdict is about
};

using Progress = std::function<void(const SearchCounts&)>;
SearchResult search(const Question& question, const Progress& progress = {});

}  // namespace zplan
