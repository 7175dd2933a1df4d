// Models whose sizes the time tests need, by the names their records use.
#pragma once

#include <string>

#include "spec/model.h"

namespace zplan::testing {

// "qwen3-8b"; throws std::out_of_range for a name that is not in the table.
Model model(const std::string& name);

}  // namespace zplan::testing
