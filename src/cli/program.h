// The zplan command: its arguments in, an exit code out. Errors are caught here, once.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"

namespace zplan {

// 0: a plan, a fit or an answer; 1: nothing fits, or a tolerance was exceeded; 2: input error; 3: a fault of zplan itself.
// `arguments` without the program's name. `data` is the folder with models/ and hardware/, `profiles` the one that is
// searched for a profile (empty: none is).
int run_program(const std::vector<std::string>& arguments, const std::string& data, Console& console,
                const std::string& profiles = "");

}  // namespace zplan
