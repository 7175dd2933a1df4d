// A thread beside a rank: NCCL reports errors of asynchronous collectives only to who asks, and a
// host that waits for a kernel which never ends cannot ask.
#pragma once

#include <atomic>
#include <thread>

#include "collectives/communicator.h"
#include "run/status.h"

namespace zplan::trainer {

class Watchdog {
 public:
  // Ends the process with kFailed, the reason in `status`, if the communicator reports an error or
  // the rank stays in one phase for longer than `timeout_s`.
  Watchdog(Communicator& communicator, RankStatus& status, double timeout_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(double timeout_s);
  Communicator& communicator_;
  RankStatus& status_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace zplan::trainer
