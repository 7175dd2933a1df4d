#include "run/watchdog.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <tuple>

#include "run/supervisor.h"

namespace zplan::trainer {
namespace {

constexpr auto kLook = std::chrono::milliseconds(250);
constexpr double kMercy =
    5;  // the rank's own exception, if it comes, says more than this thread can

}  // namespace

Watchdog::Watchdog(Communicator& communicator, RankStatus& status, double timeout_s)
    : communicator_(communicator),
      status_(status),
      thread_([this, timeout_s] { watch(timeout_s); }) {}

Watchdog::~Watchdog() {
  ended_.store(true);
  thread_.join();
}

void Watchdog::watch(double timeout_s) {
  using Clock = std::chrono::steady_clock;
  const auto now_at = [&] {
    return std::tuple(status_.phase.load(), status_.step.load(), status_.micro_step.load());
  };
  auto seen = now_at();
  Clock::time_point since = Clock::now();
  std::string why;
  while (!ended_.load() && why.empty()) {
    std::this_thread::sleep_for(kLook);
    if (seen != now_at()) {
      seen = now_at();
      since = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - since).count() > timeout_s) {
      why = "no progress for " + std::to_string(static_cast<long>(timeout_s)) + " s";
    }
    try {
      communicator_.check();
    } catch (const CollectiveError& e) {
      why = e.what();
    }
  }
  const Clock::time_point until =
      Clock::now() + std::chrono::milliseconds(static_cast<int>(kMercy * 1000));
  while (!ended_.load() && Clock::now() < until) std::this_thread::sleep_for(kLook);
  if (ended_.load()) return;
  if (!status_.said.load()) status_.say(why);
  std::fprintf(stderr, "zplan-validate: %s: %s\n", where_is(status_).c_str(), why.c_str());
  _exit(kFailed);
}

}  // namespace zplan::trainer
