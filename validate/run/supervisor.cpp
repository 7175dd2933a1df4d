#include "run/supervisor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "run/recorder.h"

namespace zplan::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// What the signal handler can reach; a handler has no other way to speak.
std::atomic<int> asked_to_stop{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
void on_signal(int signal) { asked_to_stop.store(signal); }

struct Child {
  pid_t pid = -1;
  bool running = true;
  int status = 0;  // as waitpid reports it
};

std::string how_it_ended(const Child& child, const RankStatus& status) {
  if (status.said.load()) return status.message;
  if (WIFSIGNALED(child.status)) {
    const int n = WTERMSIG(child.status);
    return std::string("killed by signal ") + std::to_string(n) + " (" + strsignal(n) + ")" +
           (n == SIGKILL ? "; the kernel's out-of-memory killer does this when host memory runs out"
                         : "");
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(child.status)) + " and no message";
}

bool failed(const Child& child) {
  return !child.running && !(WIFEXITED(child.status) && WEXITSTATUS(child.status) == kOk);
}

// The rank's process: it goes when the supervisor goes, whatever ends that.
[[noreturn]] void become_rank(int rank, pid_t supervisor, const std::function<int(int)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(kFailed);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  int code = kFailed;
  try {
    code = body(rank);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "zplan-validate: rank %d: %s\n", rank, e.what());
  }
  std::fflush(nullptr);
  _exit(code);  // no destructors of libraries whose threads may still run
}

void collect(std::vector<Child>& children) {
  for (Child& child : children) {
    if (child.running && waitpid(child.pid, &child.status, WNOHANG) == child.pid)
      child.running = false;
  }
}

bool any_running(const std::vector<Child>& children) {
  for (const Child& child : children) {
    if (child.running) return true;
  }
  return false;
}

void stop(std::vector<Child>& children, double grace_s) {
  const auto tell = [&](int signal) {
    for (const Child& child : children) {
      if (child.running) kill(child.pid, signal);
    }
  };
  tell(SIGTERM);
  const auto until = Clock::now() + std::chrono::duration<double>(grace_s);
  while (any_running(children) && Clock::now() < until) {
    collect(children);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  tell(SIGKILL);
  for (Child& child : children) {
    if (child.running) waitpid(child.pid, &child.status, 0);
    child.running = false;
  }
}

// A rank that gave up waiting is a witness; the one it waited for, furthest behind, is the cause.
int culprit(int first, const StatusPage& page) {
  const RankStatus& witness = page.of(first);
  const bool waited =
      witness.said.load() && (std::strstr(witness.message, "did not come") != nullptr ||
                              std::strstr(witness.message, "no progress") != nullptr);
  if (!waited) return first;
  int last = first;
  for (int r = 0; r < page.ranks(); ++r) {
    if (behind(page.of(r), page.of(last))) last = r;
  }
  return last;
}

}  // namespace

int supervise(const Supervision& supervision, StatusPage& page, const std::function<int(int)>& body,
              std::string& message) {
  asked_to_stop.store(0);
  struct sigaction act {
  }, old_int{}, old_term{};
  act.sa_handler = on_signal;
  sigaction(SIGINT, &act, &old_int);
  sigaction(SIGTERM, &act, &old_term);
  std::fflush(nullptr);
  std::vector<Child> children(static_cast<std::size_t>(supervision.ranks));
  const pid_t self = getpid();
  for (int r = 0; r < supervision.ranks; ++r) {
    const pid_t pid = fork();
    if (pid == 0) become_rank(r, self, body);
    children[static_cast<std::size_t>(r)].pid = pid;
    if (pid < 0) {
      children[static_cast<std::size_t>(r)].running = false;
      children[static_cast<std::size_t>(r)].status = kFailed << 8;
      page.of(r).say(std::string("its process could not be started: ") + std::strerror(errno));
    }
  }
  int first = -1;
  while (first < 0 && !asked_to_stop.load() && any_running(children)) {
    collect(children);
    for (int r = 0; r < supervision.ranks && first < 0; ++r) {
      if (failed(children[static_cast<std::size_t>(r)])) first = r;
    }
    if (first < 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  collect(children);
  for (int r = 0; r < supervision.ranks && first < 0; ++r) {
    if (failed(children[static_cast<std::size_t>(r)])) first = r;
  }
  const int signal = asked_to_stop.load();
  stop(children, supervision.grace_s);
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
  if (first < 0 && !signal) return kOk;

  Failure failure;
  int code = kFailed;
  if (first < 0) {
    failure = {0, where_is(page.of(0)), std::string("stopped by ") + strsignal(signal)};
  } else {
    const Child& child = children[static_cast<std::size_t>(first)];
    failure.rank = culprit(first, page);
    failure.where = where_is(page.of(failure.rank));
    failure.what = how_it_ended(child, page.of(first));
    if (failure.rank != first) {
      failure.what = "the others wait for it: rank " + std::to_string(first) + " " +
                     where_is(page.of(first)) + ": " + failure.what;
    }
    if (WIFEXITED(child.status)) code = WEXITSTATUS(child.status);
  }
  message = code == kInputError ? failure.what
                                : "rank " + std::to_string(failure.rank) + " " + failure.where +
                                      ": " + failure.what;
  if (code != kInputError) {
    try {
      mark_failed(supervision.out, failure);
    } catch (const WriteError& e) {
      message += "\n  and the record could not be written: " + std::string(e.what());
    }
  }
  return code;
}

}  // namespace zplan::trainer
