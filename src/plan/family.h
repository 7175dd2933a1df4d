// One family of the search: a choice of stage, offload, micro-batch, recomputation and kernels, with every setting of
// its knobs. A family is tried on its own, so that families can be tried side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/search.h"

namespace zplan {

struct Family {
  Strategy strategy;       // with plain knobs
  std::int64_t size = 0;   // settings of its knobs
  Seconds least_time;      // none of them is faster
  MemoryBound least_memory;
  HostNeed host;
};

// All families of a question that DeepSpeed would start, in a fixed order.
std::vector<Family> families(const Question& question, const Shard& shard);

struct FamilyResult {
  std::optional<Candidate> best, nearest;
  std::string cannot_run;
  std::int64_t discarded_by_bound = 0, discarded_by_time = 0, simulated = 0;
};

// Tries the knobs of a family: fastest first, plain ones before fancy ones where time is the same, the next one where
// the last one's shortfall says that it may fit. Stops at the first that fits by the margin, or that takes longer than
// `slowest`.
FamilyResult try_family(const Question& question, const Shard& shard, const Budget& budget, const Family& family,
                        Seconds slowest);

}  // namespace zplan
