// Waiting that SIGINT and SIGTERM end. While it lives, these two stop the program no more; one at a time.
#pragma once

#include <csignal>

#include "units/units.h"

namespace zplan {

class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // Waits so long, or until a signal came. True: one came, now or before.
  bool wait(Seconds time);

 private:
  struct sigaction interrupt_ {}, terminate_ {};  // as they were
};

}  // namespace zplan
