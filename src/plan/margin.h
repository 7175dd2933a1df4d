// How much of a device a plan leaves free, and how far a running job may stray before it counts as having left its
// plan.
#pragma once

#include <algorithm>

#include "units/units.h"

namespace zplan {

// The prediction's own error on a device of this size: 1.5 %, at least 256 MiB. docs/validation.md#residuals
constexpr Bytes prediction_margin(Bytes device) { return std::max(MiB(256), device * 15 / 1000); }

}  // namespace zplan
