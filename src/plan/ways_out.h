// What would make a configuration that ran out of memory fit: changes of it, each simulated, the cheapest first.
// docs/oom.md#ways-out
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/strategy.h"
#include "spec/hardware.h"
#include "spec/run.h"
#include "time/coefficients.h"
#include "units/units.h"

namespace zplan {

struct WayOut {
  std::string text;  // "sub_group_size 1e8, expandable segments"
  Strategy strategy;
  Bytes need;                    // a limit on reserved under which the changed run completes
  bool by_margin = false;        // and one that is lower by the prediction's own error
  std::optional<double> slower;  // step time over that of the run as it is; absent: not comparable (more GPUs)
  Bytes host;                    // of a node
  std::string needs;             // a package: "liger-kernel"
};

// `limit`: the most that torch's allocator may reserve. Those by the margin first, then the faster; of those as fast
// what needs no package, then the fewest settings. A larger change is tried alone, and with settings of
// zero_optimization and the allocator only where it is not enough; settings without one, each by itself first. More
// GPUs only where nothing else is left.
std::vector<WayOut> ways_out(const Run& run, const Cluster& cluster, Bytes limit,
                             const TimeCoefficients& coefficients);

}  // namespace zplan
