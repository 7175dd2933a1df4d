// Which measurement would determine a coefficient: what calibration answers where it refuses to fit.
#pragma once

#include <string>

namespace zplan {

// By the coefficient's name in coefficient_table(); the text completes "determined by ...". Empty for an unknown name.
std::string determined_by(const std::string& coefficient);

}  // namespace zplan
