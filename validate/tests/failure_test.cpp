#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "runs.h"
#include "tests/catch.h"

namespace zplan::trainer {
namespace {

struct Timed {
  Outcome outcome;
  double seconds = 0;
};

Timed rehearse(Rehearsal rehearsal, double timeout_s = 20) {
  Plan plan = tiny_plan();
  plan.run.world_size = 3;
  plan.run.ds.zero.stage = 2;
  plan.run.ds.zero.reduce_bucket_size = 5000;
  plan.run.steps = 6;
  plan.timeout_s = timeout_s;
  plan.rehearsal = rehearsal;
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  Timed timed{run(plan, folder), 0};
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return timed;
}

bool no_children_left() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a rank that fails ends every rank, with one message and a valid record", "[validate][failure]") {
  using W = Rehearsal::What;
  struct Row { const char* name; Rehearsal rehearsal; double timeout_s; int code; std::string message, outcome; };
  const std::vector<Row> rows = {
      {"killed in backward", {W::Die, 1, Phase::Backward, 2}, 20, kFailed,
       "rank 1 in backward of step 2, micro-step 0: killed by signal 9 (Killed); the kernel's out-of-memory killer does "
       "this when host memory runs out", "failed"},
      {"killed while loading", {W::Die, 0, Phase::Load, -1}, 20, kFailed,
       "rank 0 in load: killed by signal 9 (Killed); the kernel's out-of-memory killer does this when host memory runs out",
       "failed"},
      {"an exception in the step", {W::Throw, 2, Phase::Step, 1}, 20, kFailed,
       "rank 2 in step of step 1, micro-step 0: a rehearsed failure", "failed"},
      {"out of device memory", {W::OutOfMemory, 0, Phase::Forward, 3}, 20, kOutOfMemory,
       "rank 0 in forward of step 3, micro-step 0: CUDA out of memory (rehearsed)", "oom"},
      // Whoever notices first is the witness; the one that hangs is named.
      {"a rank that hangs", {W::Hang, 1, Phase::Backward, 1}, 2, kFailed, "rank 1 in backward of step 1, micro-step 0: ",
       "failed"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Timed timed = rehearse(row.rehearsal, row.timeout_s);
    INFO(timed.outcome.message);
    CHECK(timed.outcome.code == row.code);
    CHECK(timed.outcome.message.substr(0, row.message.size()) == row.message);
    CHECK(timed.seconds < 30);
    CHECK(no_children_left());
    REQUIRE(timed.outcome.record.is_object());
    CHECK(timed.outcome.record["outcome"] == row.outcome);
    CHECK(timed.outcome.record["failure"]["rank"] == row.rehearsal.rank);
    if (row.rehearsal.step > 0) CHECK(timed.outcome.record["losses"].size() >= static_cast<std::size_t>(row.rehearsal.step));
  }
}

TEST_CASE("a disk that is full ends the run with a message that names the file", "[validate][failure]") {
  Plan plan = tiny_plan();
  plan.run.steps = 6;
  const TemporaryFolder folder;
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8192, before.rlim_max};  // the first phases fit, not all
  setrlimit(RLIMIT_FSIZE, &small);
  const Outcome outcome = run(plan, folder);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  INFO(outcome.message);
  CHECK(outcome.code == kFailed);
  CHECK(outcome.message.find("measurements.json: cannot be written: File too large") != std::string::npos);
  CHECK(outcome.message.find("rank 0 in ") == 0);
  REQUIRE(outcome.record.is_object());  // the last whole record is still there
  CHECK(outcome.record["outcome"] != "ok");
  CHECK(outcome.record["phases"].size() > 3);
  CHECK(no_children_left());
}

TEST_CASE("what the user can mend is an input error of code 2, told once", "[validate][failure]") {
  Plan plan = tiny_plan();
  plan.run.world_size = 2;
  plan.run.ds.zero.stage = 3;
  plan.run.ds.zero.offload_param.device = OffloadDevice::Cpu;
  const TemporaryFolder folder;
  const Outcome outcome = run(plan, folder);
  CHECK(outcome.code == kInputError);
  CHECK(outcome.message ==
        "ds_config:/zero_optimization/offload_param: parameters in host memory need their optimizer there too\n"
        "  fix: add offload_optimizer with device cpu");
}

}  // namespace zplan::trainer
