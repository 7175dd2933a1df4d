// A program run as a child, waited for. Its standard output goes to our standard error: ours is the result's.
#pragma once

#include <string>
#include <vector>

namespace zplan {

// Its exit code; 128 + N if signal N ended it. Throws InputError if the program is not there.
int run_child(const std::vector<std::string>& words);

}  // namespace zplan
