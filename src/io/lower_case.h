// ASCII letters in lower case: DeepSpeed compares names of types and optimizers so.
#pragma once

#include <string>

namespace zplan {

char lower_case(char letter);
std::string lower_case(std::string text);

}  // namespace zplan
