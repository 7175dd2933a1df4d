// Where a command writes. The result goes to `out`, everything else (progress, errors) to `err`.
#pragma once

#include <ostream>

namespace zplan {

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool colour = false;    // out is a terminal that shows colours, and NO_COLOR is not set
  bool progress = false;  // err is a terminal
  bool terminal = false;  // out is a terminal whose cursor can be moved
};

}  // namespace zplan
