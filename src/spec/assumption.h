// What was not said and therefore assumed; each has the option that says it.
#pragma once

#include <string>

namespace zplan {

struct Assumption {
  std::string option;  // "--seq-len"
  std::string value;   // "2048", as the option would take it
  std::string text;    // "2048 tokens a sequence"
  friend bool operator==(const Assumption&, const Assumption&) = default;
};

}  // namespace zplan
