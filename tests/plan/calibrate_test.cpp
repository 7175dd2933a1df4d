#include "plan/calibrate.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "plan/calibrate_process.h"
#include "plan/determined_by.h"
#include "plan/profile.h"
#include "tests/catch.h"
#include "tests/time/timed_runs.h"
#include "time/step_time.h"

using namespace zplan;
using namespace zplan::testing;

namespace {

struct Made {
  std::string name;
  double times = 1;  // of the prior
};
// A machine other than the priors': its host is slow, its GPU fast.
const std::vector<Made> machine = {{"host_zero3_module", 1.4},
                                   {"host_zero3_bucket", 0.6},
                                   {"gpu_speed", 1.15},
                                   {"cpu_memory_node_ddr5", 0.6},
                                   {"host_step_tensor", 1.5}};

Coefficient& named(TimeCoefficients& c, const std::string& name) {
  for (const auto& e : coefficient_table()) {
    if (e.name == name) return c.*e.member;
  }
  throw std::out_of_range(name);
}

TimeCoefficients truth() {
  TimeCoefficients c;
  for (const Made& m : machine) named(c, m.name).value *= m.times;
  return c;
}

// The runs of the recorded measurements with the seconds they would take on that machine, and a normal error.
std::vector<TimedRun> made_runs(double noise, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> error(0, noise);
  auto runs = complete_runs();
  for (TimedRun& t : runs) {
    const StepTime p = predict_step_time(t.run, t.cluster, truth());
    t.forward_s = p.forward_s * std::exp(error(random));
    t.backward_s = p.last_backward_s * std::exp(error(random));
    t.step_s = p.step_s * std::exp(error(random));
    t.loop_s = p.total().count * std::exp(error(random));
  }
  return runs;
}

std::vector<MeasuredGroup> groups(const std::vector<TimedRun>& runs) {
  std::vector<MeasuredGroup> out;
  for (const auto& t : runs) out.push_back(measured_group(t));
  return out;
}

const CalibratedCoefficient& row(const std::vector<CalibratedCoefficient>& table, const std::string& name) {
  for (const auto& c : table) {
    if (c.name == name) return c;
  }
  throw std::out_of_range(name);
}

}  // namespace

TEST_CASE("calibration finds the machine that made the times", "[plan]") {
  const TimeCalibration c = calibrate_time(groups(made_runs(0.03, 7)));
  for (const Made& m : machine) {
    const auto& r = row(c.table, m.name);
    INFO(m.name << ": " << r.value.value / r.prior.value << " of the prior, made with " << m.times << " "
                << r.why_not);
    CHECK(r.fitted);
    CHECK(std::abs(std::log(r.value.value / r.prior.value / m.times)) < 3 * r.value.relative_error);
    CHECK(r.value.relative_error < r.prior.relative_error);
  }
  CHECK(c.mean_before > 0.06);
  CHECK(c.mean_after < 0.035);  // the noise is 0.03
  CHECK(c.mean_left_out < 0.06);
  CHECK(c.coefficients.unexplained_share.value < 0.05);
}

TEST_CASE("the predicted error shrinks with what was measured", "[plan]") {
  const auto runs = made_runs(0.03, 8);
  const TimeCalibration c = calibrate_time(groups(runs));
  for (const auto& t : runs) {
    INFO(t.id);
    CHECK(predict_step_time(t.run, t.cluster, c.coefficients).relative_error <
          predict_step_time(t.run, t.cluster, TimeCoefficients{}).relative_error);
  }
}

TEST_CASE("a run that was disturbed moves no coefficient by more than its error", "[plan]") {
  auto runs = made_runs(0.03, 9);
  const TimeCalibration clean = calibrate_time(groups(runs));
  const auto spoiled = std::find_if(runs.begin(), runs.end(), [](const TimedRun& t) { return t.id == "r02"; });
  REQUIRE(spoiled != runs.end());
  for (auto* s : {&spoiled->forward_s, &spoiled->backward_s, &spoiled->step_s, &spoiled->loop_s}) *s = **s * 8;
  const TimeCalibration after = calibrate_time(groups(runs));
  for (const auto& c : clean.table) {
    if (!c.fitted || c.name == "unexplained") continue;
    const auto& r = row(after.table, c.name);
    INFO(c.name << ": " << c.value.value << " " << r.value.value);
    CHECK(std::abs(std::log(r.value.value / c.value.value)) <
          std::max(c.value.relative_error, r.value.relative_error));
  }
  for (const auto& s : after.steps) CHECK(s.outlier == (s.id == "r02"));
}

TEST_CASE("what no run depends on stays at its prior and names the run that would tell", "[plan]") {
  auto runs = complete_runs();
  runs.erase(std::remove_if(runs.begin(), runs.end(), [](const TimedRun& t) { return t.run.ds.zero.stage == 3; }),
             runs.end());
  REQUIRE(runs.size() >= 3);
  const TimeCalibration c = calibrate_time(groups(runs));
  for (const char* name :
       {"host_zero3_module", "host_zero3_gather", "cpu_memory_thread", "nvme_read", "pcie_ring_fraction"}) {
    const auto& r = row(c.table, name);
    INFO(name);
    CHECK_FALSE(r.fitted);
    CHECK(r.value == r.prior);
    CHECK(r.why_not == "no measurement depends on it");
    CHECK(r.determined_by == determined_by(name));
  }
  CHECK(row(c.table, "unexplained").why_not == "too few whole steps were timed");
}

TEST_CASE("without measurements everything is the prior", "[plan]") {
  const TimeCalibration c = calibrate_time({});
  CHECK(c.coefficients == TimeCoefficients{});
  CHECK(c.table.size() == coefficient_table().size());
  for (const auto& r : c.table) CHECK_FALSE(r.fitted);
}

TEST_CASE("every coefficient has a run that would determine it", "[plan]") {
  for (const auto& e : coefficient_table()) {
    INFO(e.name);
    CHECK_FALSE(determined_by(std::string(e.name)).empty());
  }
  CHECK(determined_by("nothing of the kind").empty());
}

TEST_CASE("the ranks of a run are one timed run; what is no DeepSpeed job is left out", "[plan]") {
  std::vector<Record> records;
  for (const Record& r : truth_records()) {
    if (r.id == "r01") records.push_back(r);
  }
  REQUIRE(records.size() == 2);
  const double one = records[0].phases.back().seconds->count, other = records[1].phases.back().seconds->count;
  const TimedRuns both = timed_runs(records);
  REQUIRE(both.runs.size() == 1);
  CHECK(both.runs[0].ranks == 2);
  CHECK(*both.runs[0].step_s == Approx((one + other) / 2));
  CHECK(timed_runs({records[0], records[0]}).runs.size() == 2);  // the same rank again: a repetition

  Record r = records[0];
  const auto reason = [&] {
    const TimedRuns t = timed_runs({r});
    CHECK(t.runs.empty());
    REQUIRE(t.left_out.size() == 1);
    return t.left_out[0].text;
  };
  r.measured_by = "zplan-validate";
  CHECK(reason() ==
        "The seconds of r01 are not used: it was measured by zplan-validate, whose host is no Python process: only "
        "its memory counts.");
  r = records[0], r.ranks = Record::Ranks::Fake;
  CHECK(reason() == "The seconds of r01 are not used: it has a stand-in for the other ranks: nothing was sent.");
  r = records[0], r.machine.reset();
  CHECK(reason() == "The seconds of r01 are not used: it does not say on what machine it ran (\"machine\").");
  r = records[0], r.outcome = Record::Outcome::OutOfMemory;
  CHECK(reason() == "The seconds of r01 are not used: it ran out of memory.");
  r = records[0], r.loop_step_seconds.clear(), r.phases.resize(6);
  CHECK(reason() == "The seconds of r01 are not used: it ended before the third step.");
}

TEST_CASE("bytes outside the allocator come from what the driver counted beyond reserved", "[plan]") {
  const auto table = calibrate_process(truth_records());
  REQUIRE(table.size() == process_table().size());
  const auto& nccl = row(table, std::string(nccl_small));
  CHECK(nccl.fitted);
  CHECK(nccl.value.value == Approx(nccl.prior.value).epsilon(0.05));  // the prior was read on the same card
  CHECK_FALSE(row(table, std::string(nccl_large)).fitted);
  CHECK(row(table, std::string(loaded_kernels)).determined_by == "a run of one rank, with device_used_bytes");
  const auto& host = row(table, std::string(host_process));
  CHECK(host.fitted);
  CHECK(host.value.value == Approx(2.2e9).epsilon(0.05));
  CHECK(calibrate_process({})[0].why_not == "no measurement depends on it");
}

TEST_CASE("a profile holds what was fitted and is refused where it is not true", "[plan]") {
  const auto runs = made_runs(0.03, 7);
  const TimeCalibration c = calibrate_time(groups(runs));
  const Run& run = runs.front().run;
  const Profile p = profile_of(run, c.table, {});
  for (const auto& e : coefficient_table()) {
    const auto& r = row(c.table, std::string(e.name));
    const Coefficient now = coefficients(p).*e.member;
    INFO(e.name);
    CHECK(now.value == r.value.value);
    CHECK(now.relative_error == Approx(r.value.relative_error));
  }
  CHECK(mismatch(p, run).empty());
  Run other = run;
  other.gpu.id = "a100-sxm4-40gb";
  CHECK(mismatch(p, other) == "was measured on h200-sxm-141gb, not on a100-sxm4-40gb");
  other = run, other.versions.deepspeed = {0, 16, 9};
  CHECK(mismatch(p, other) == "was measured with DeepSpeed 0.19.6, not 0.16.9");
  other = run, other.versions.torch = {2, 13, 0};
  CHECK(mismatch(p, other) == "was measured with torch 2.11.0, not 2.13.0");
  other = run, other.versions.transformers = {4, 57, 0};
  CHECK(mismatch(p, other) == "was measured with transformers 5.17.0, not 4.57.0");
  other = run, other.versions.deepspeed = {0, 19, 8};
  CHECK(mismatch(p, other).empty());
}

TEST_CASE("a profile's bytes of NCCL count for worlds like the measured one", "[plan]") {
  Profile p;
  p.coefficients = {{std::string(nccl_small), "bytes", 5e8, 1e7, 3},
                    {std::string(host_process), "bytes", 2e9, 1e7, 3}};
  CHECK(process_bytes(p, 1).nccl == std::nullopt);
  CHECK(process_bytes(p, 2).nccl == Bytes{500'000'000});
  CHECK(process_bytes(p, 4).nccl == Bytes{500'000'000});
  CHECK(process_bytes(p, 8).nccl == std::nullopt);
  CHECK(process_bytes(p, 8).host == Bytes{2'000'000'000});
}
