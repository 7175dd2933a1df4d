// Names as people sort them: numbers in them by value, "Qwen3-8B" before "Qwen3-14B".
#pragma once

#include <string>

namespace zplan {

bool natural_less(const std::string& a, const std::string& b);

}  // namespace zplan
