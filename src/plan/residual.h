// The largest memory difference that is left between prediction and measurement, and where it comes from: an
// unexplained one is a fault of the simulator, to be mended there and not fitted. docs/calibration.md#residual
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/comparison.h"
#include "spec/measurement.h"
#include "step/component.h"
#include "units/units.h"

namespace zplan {

struct MemoryResidual {
  std::string id, phase;
  std::int64_t step = -1, micro_step = -1;
  Bytes measured, predicted;  // allocated peak of the phase
  Bytes difference() const { return predicted - measured; }
  // Stays: the difference is in what the phase leaves allocated, and `phase` is the first that does; the component is
  // the one that the simulated phase changes most. Passes: it is gone at the end; the component is that of `event`.
  bool stays = false;
  Component component = Component::Parameters;
  std::string event;  // what the simulation allocates at the phase's peak
};

// Over every phase of every run, largest in bytes. `comparisons` are of `records`, one each. Empty where no phase
// differs by more than `negligible`.
std::optional<MemoryResidual> largest_residual(const std::vector<Record>& records,
                                               const std::vector<Comparison>& comparisons, Bytes negligible = MiB(1));

}  // namespace zplan
