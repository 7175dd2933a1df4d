// --tolerance QUANTITY=MEAN[,WORST], as compare and validate take it.
#pragma once

#include <string>
#include <vector>

#include "plan/comparison.h"

namespace zplan {

// Shares are written 0.005 or 0.5%. Throws InputError naming the option.
std::vector<Tolerance> tolerances_of(const std::vector<std::string>& texts);

}  // namespace zplan
