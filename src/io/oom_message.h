// Reads PyTorch's out-of-memory message out of whatever was pasted: a line, a traceback, the log of all ranks.
// Its forms: c10/cuda/CUDACachingAllocator.cpp of torch 1.13 to 2.13. docs/oom.md#message
#pragma once

#include <string>

#include "plan/oom.h"

namespace zplan {

// The first message in the text. Throws InputError at `where` if there is none, or if it is not complete.
OomMessage read_oom_message(const std::string& text, const std::string& where);

}  // namespace zplan
