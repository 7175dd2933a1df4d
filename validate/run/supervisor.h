// Starts the ranks of one machine as processes and sees them all end: when one fails, the others
// are stopped, one message says which rank failed, where and why, and the record on disk says so
// too.
#pragma once

#include <functional>
#include <string>

#include "run/status.h"

namespace zplan::trainer {

// Exit codes of a rank and of the program.
enum Exit { kOk = 0, kOutOfMemory = 1, kInputError = 2, kFailed = 3 };

struct Supervision {
  int ranks = 1;
  std::string out;      // the record of rank 0
  double grace_s = 10;  // between asking the survivors to stop and killing them
};

// `body` runs in a child process, its result is the rank's exit code; it must not have touched CUDA
// before. Returns the program's exit code; `message` is empty if all went well.
int supervise(const Supervision& supervision, StatusPage& page,
              const std::function<int(int rank)>& body, std::string& message);

}  // namespace zplan::trainer
