#include "cli/stop_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace zplan {
namespace {

// What a handler may touch is static: the pipe that wait() listens to. A byte in it is never read, so it stays.
int wake[2] = {-1, -1};

extern "C" void on_stop(int) {
  const char byte = 's';
  [[maybe_unused]] const auto n = ::write(wake[1], &byte, 1);
}

}  // namespace

StopSignals::StopSignals() {
  if (::pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) return;  // then wait() only waits
  struct sigaction action {};
  action.sa_handler = on_stop;
  ::sigaction(SIGINT, &action, &interrupt_);
  ::sigaction(SIGTERM, &action, &terminate_);
}

StopSignals::~StopSignals() {
  if (wake[0] < 0) return;
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
  for (int& end : wake) {
    ::close(end);
    end = -1;
  }
}

bool StopSignals::wait(Seconds time) {
  using Clock = std::chrono::steady_clock;
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time.count));
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd one{wake[0], POLLIN, 0};
    const int n = ::poll(&one, 1, static_cast<int>(std::clamp<long long>(left + 1, 0, 1 << 30)));
    if (n > 0) return true;
    if (Clock::now() >= until) return false;
  }
}

}  // namespace zplan
