// Does memory grow over the steps of a job? A robust test on the highest value of successive windows of time: a leak
// or ever longer batches raise every window, a single jump raises one, a warm-up slows down. docs/watching.md#growth
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "units/units.h"

namespace zplan {

struct Growth {
  double bytes_per_second = 0;  // Theil-Sen: the median of the slopes between all pairs of windows
  Bytes rise;                   // from the first of the windows to the last
  Seconds over;                 // the time between them
};

class GrowthDetector {
 public:
  // `window` should hold two steps at least, so that each window sees the highest moment of a step. A rise below
  // `least` is not looked at.
  GrowthDetector(Seconds window, Bytes least) : window_(window), least_(least) {}

  // One sample; times do not fall. Samples of the warm-up are left out by the caller.
  void add(Seconds at, Bytes used);
  // The growth over the last windows, at the shortest scale at which it shows; none: no growth.
  std::optional<Growth> growth() const { return growth_; }

 private:
  std::optional<Growth> at_scale(std::size_t scale) const;

  Seconds window_;
  Bytes least_;
  std::optional<Seconds> window_began_;
  Bytes highest_;              // of the window that is open
  std::vector<Bytes> maxima_;  // of the closed ones, oldest first
  std::optional<Growth> growth_;
};

}  // namespace zplan
