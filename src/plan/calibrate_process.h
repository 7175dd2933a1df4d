// Bytes of a rank's process that neither model nor strategy decides, from what the driver and the system counted:
// NCCL, loaded kernels, the host's resident set. docs/calibration.md#process
#pragma once

#include <vector>

#include "plan/calibrate.h"
#include "spec/measurement.h"

namespace zplan {

// One row of process_table() each. Records of other programs than DeepSpeed do not count: their processes are others.
std::vector<CalibratedCoefficient> calibrate_process(const std::vector<Record>& records);

}  // namespace zplan
