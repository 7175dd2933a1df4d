// tests/truth/grid.jsonl: runs that validate/deepspeed/grid.sh planned, over NCCL on two H200 and with one of the ranks
// played alone; grid_again.jsonl: those over NCCL on another machine of the kind; tests/truth/plans.jsonl: plans of the main job under the limit of the card they are for.
#include <cmath>
#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include "io/record_reader.h"
#include "plan/calibrate.h"
#include "plan/comparison.h"
#include "plan/timed_run.h"
#include "tests/catch.h"
#include "tests/cli/run.h"
#include "tests/io/catalog.h"

using namespace zplan;

namespace {

struct Measured {
  Record record;
  Comparison compared;
};

const std::vector<Measured>& measured(const std::string& file) {
  static std::map<std::string, std::vector<Measured>> known;
  auto& all = known[file];
  if (all.empty()) {
    for (const auto& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/" + file)) {
      const Record record = read_record(text, catalog(), MapFiles{});
      all.push_back({record, compare(record, {})});
    }
  }
  return all;
}

std::vector<const Measured*> over_nccl(const std::string& file = "grid.jsonl") {
  std::vector<const Measured*> real;
  for (const auto& m : measured(file)) {
    if (m.record.ranks == Record::Ranks::Nccl) real.push_back(&m);
  }
  return real;
}

double seconds(const Measured& m) { return whole_step(m.record)->count; }

// The largest difference between two runs in a figure of a phase of the steps.
std::int64_t furthest_phase(const Comparison& a, const Comparison& b, Bytes PhaseComparison::*figure) {
  std::int64_t most = 0;
  for (const auto& p : a.phases) {
    for (const auto& q : b.phases) {
      if (p.step < 0 || p.phase != q.phase || p.step != q.step || p.micro_step != q.micro_step) continue;
      most = std::max(most, std::abs((p.*figure - q.*figure).count));
    }
  }
  return most;
}

// Of 1.0 for the same order to -1.0 for the reverse.
double kendall_tau(const std::vector<const Measured*>& runs) {
  int agree = 0, pairs = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pairs) {
      const double measured = seconds(*runs[i]) - seconds(*runs[j]);
      const double predicted = runs[i]->compared.time->total().count - runs[j]->compared.time->total().count;
      agree += measured * predicted > 0 ? 1 : -1;
    }
  }
  return static_cast<double>(agree) / pairs;
}

}  // namespace

TEST_CASE("runs that nobody tuned to: memory, outcomes and step time as predicted", "[truth]") {
  const std::vector<Tolerance> memory = {{Quantity::AllocatedPeak, 0.0001, 0.0001},
                                         {Quantity::ReservedPeak, 0.01, 0.05},
                                         {Quantity::HostPinned, 0.001, 0.001}};
  for (const std::string file : {"grid.jsonl", "grid_again.jsonl", "plans.jsonl"}) {
    std::vector<Tolerance> tolerances = memory;
    // Two machines of one kind: their hosts are up to 1.7 times apart, and the priors stand between them.
    if (file == "grid.jsonl") tolerances.push_back({Quantity::StepSeconds, 0.10, {}});
    if (file == "grid_again.jsonl") tolerances.push_back({Quantity::StepSeconds, 0.15, {}});
    if (file == "plans.jsonl") tolerances.push_back({Quantity::HostPeak, 0.05, 0.05});
    std::vector<Comparison> runs;
    for (const auto& m : measured(file)) runs.push_back(m.compared);
    const auto summary = summarize(runs);
    CHECK(summary.failed == 0);
    CHECK(summary.outcomes_wrong == 0);
    for (const auto& e : exceeded(summary, tolerances)) FAIL_CHECK(file << ": " << e);
  }
}

TEST_CASE("a rank alone allocates what it does among real ranks, in every phase", "[truth]") {
  std::map<std::string, const Measured*> alone;
  for (const auto& m : measured("grid.jsonl")) {
    if (m.record.ranks == Record::Ranks::Fake) alone[m.record.id] = &m;
  }
  const auto reserved = [](const Record& r) {
    Bytes most;
    for (const auto& p : r.phases) most = p.step < 0 ? most : std::max(most, p.reserved_peak);
    return static_cast<double>(most.count);
  };
  constexpr std::int64_t mib = 1 << 20;
  int pairs = 0, beyond = 0, same = 0, held = 0;
  double furthest = 0;
  for (const Measured* m : over_nccl()) {
    const auto it = alone.find(m->record.id + ".stand-in");
    if (it == alone.end()) continue;
    ++pairs;
    INFO(m->record.id);
    const auto most = furthest_phase(m->compared, it->second->compared, &PhaseComparison::measured_allocated_peak);
    const auto predicted = furthest_phase(m->compared, it->second->compared, &PhaseComparison::predicted_allocated_peak);
    beyond += std::abs(most - predicted) > mib;
    CHECK(std::abs(most - predicted) < 4 * mib);
    // Only parameters on the CPU: torch's NCCL process group holds what a gather sends until its wait.
    const bool holds = m->record.run.ds.zero.offload_param.device != OffloadDevice::None;
    CHECK((predicted > mib) == holds);
    held += holds;
    const double apart = std::abs(reserved(m->record) / reserved(it->second->record) - 1);
    CHECK(apart < 0.025);
    same += apart == 0;
    furthest = std::max(furthest, apart);
  }
  std::printf("%d pairs of real ranks and stand-ins: allocated within 1 MiB in %d, reserved equal in %d, at most %.1f %% apart\n",
              pairs, pairs - beyond, same, 100 * furthest);
  CHECK(pairs == 32);
  CHECK(held == 1);
  // Where a side stream's blocks come back in another order, a tensor gets a block that is up to 1 MiB larger than it:
  // the allocator does not split off less, and counts all of it.
  CHECK(beyond <= 1);
}

TEST_CASE("where the GPU decides, step times are right to 3 % without calibration, on both machines", "[truth]") {
  for (const std::string file : {"grid.jsonl", "grid_again.jsonl"}) {
    double apart = 0;
    int runs = 0;
    for (const Measured* m : over_nccl(file)) {
      const auto& ds = m->record.run.ds;
      if (ds.zero.stage == 3 || ds.train_micro_batch_size_per_gpu < 2 || ds.zero.offload_optimizer.device != OffloadDevice::None) continue;
      const double error = m->compared.time->total().count / seconds(*m) - 1;
      INFO(m->record.id << " " << error);
      CHECK(std::abs(error) < 0.08);
      apart += std::abs(error);
      ++runs;
    }
    std::printf("%s: %d runs that the GPU decides, step time %.1f %% off from the priors\n", file.c_str(), runs, 100 * apart / runs);
    CHECK(runs == 14);
    CHECK(apart / runs < 0.03);
  }
}

TEST_CASE("two machines of one kind are alike where the GPU decides and not where the host does", "[truth]") {
  std::map<std::string, double> first;
  for (const Measured* m : over_nccl()) first[m->record.id] = seconds(*m);
  double least = 1e9, most = 0;
  for (const Measured* m : over_nccl("grid_again.jsonl")) {
    const auto& id = m->record.id;
    const double ratio = first.at(id.substr(0, id.size() - std::string(".2").size())) / seconds(*m);
    if (m->record.run.ds.zero.stage == 3) least = std::min(least, ratio), most = std::max(most, ratio);
    if (id == "q8-z2-m2-r.2" || id == "z1-m4.2" || id == "z2-m8-r.2") CHECK(ratio == Approx(1).epsilon(0.01));
  }
  std::printf("stage 3 took %.1f to %.1f times as long on the one machine as on the other\n", least, most);
  CHECK(least > 1);
  CHECK(most < 1.75);
}

TEST_CASE("the stated error of a step time is what the two machines show", "[truth]") {
  for (const std::string file : {"grid.jsonl", "grid_again.jsonl"}) {
    double squares = 0;
    int runs = 0;
    for (const Measured* m : over_nccl(file)) {
      if (m->record.run.ds.zero.stage < 3) continue;
      const double in_errors = std::log(m->compared.time->total().count / seconds(*m)) / m->compared.time->relative_error;
      INFO(m->record.id << " " << in_errors);
      CHECK(std::abs(in_errors) < 2);
      squares += in_errors * in_errors;
      ++runs;
    }
    const double rms = std::sqrt(squares / runs);
    std::printf("%s: %d runs of stage 3 are off by %.2f of their stated errors in the root mean square\n", file.c_str(), runs, rms);
    CHECK(rms > 0.5);  // neither timid
    CHECK(rms < 1.3);  // nor boastful
  }
}

TEST_CASE("calibrated on its machine a step time is right to 5 %: of runs left out, and of other models", "[truth]") {
  for (const std::string file : {"grid.jsonl", "grid_again.jsonl"}) {
    std::vector<Record> one, all;
    std::vector<const Measured*> others;
    for (const Measured* m : over_nccl(file)) {
      all.push_back(m->record);
      if (m->record.run.model.name == "Qwen3-1.7B") {
        one.push_back(m->record);
      } else {
        others.push_back(m);
      }
    }
    const auto calibrated_with = [](const std::vector<Record>& records) {
      std::vector<MeasuredGroup> groups;
      for (const auto& t : timed_runs(records).runs) groups.push_back(measured_group(t));
      return calibrate_time(groups);
    };
    const TimeCalibration whole = calibrated_with(all), calibrated = calibrated_with(one);
    double after = 0;
    for (const Measured* m : others) {
      const auto& r = m->record;
      after += std::abs(predict_step_time(r.run, *r.machine, calibrated.coefficients).total().count / seconds(*m) - 1);
    }
    const double runs = static_cast<double>(others.size());
    std::printf("%s: %.1f %% before, %.1f %% of each of %zu runs left out; calibrated with %zu runs of Qwen3-1.7B, %zu of other models %.1f %%\n",
                file.c_str(), 100 * whole.mean_before, 100 * whole.mean_left_out, all.size(), one.size(), others.size(), 100 * after / runs);
    CHECK(whole.mean_left_out < 0.052);
    CHECK(after / runs < 0.05);
  }
}

TEST_CASE("the plan for the grid's job is among the fastest that were measured", "[truth]") {
  std::vector<const Measured*> job;
  for (const Measured* m : over_nccl()) {
    if (m->record.run.model.name == "Qwen3-1.7B") job.push_back(m);
  }
  REQUIRE(job.size() >= 20);
  const auto planned = testing::zplan_run({"--model", "qwen3-1.7b", "--gpus", "2xH200", "--seq-len", "2048",
                                           "--global-batch", "16", "--no-files", "--json"});
  REQUIRE(planned.code == 0);
  const auto best = nlohmann::json::parse(planned.out)["best"]["strategy"];
  // A plan uses Liger's kernels where it is allowed to (--allow liger); the question does not.
  double fastest = 1e9, with_packages = 1e9, chosen = 0;
  for (const Measured* m : job) {
    const Run& run = m->record.run;
    const bool package = run.workload.kernels.any();
    (package ? with_packages : fastest) = std::min(package ? with_packages : fastest, seconds(*m));
    if (package) continue;
    if (run.ds.zero.stage == best["stage"] && run.ds.train_micro_batch_size_per_gpu == best["micro_batch"] &&
        (run.workload.recompute.any() ? best["recompute"] != "none" : best["recompute"] == "none") &&
        run.ds.zero.offload_optimizer.device == OffloadDevice::None && best["offload"] == "none") {
      chosen = seconds(*m);
    }
  }
  const double tau = kendall_tau(job);
  std::printf("ranking of %zu measured runs of one job: chosen %.3f s (%s), fastest %.3f s, Kendall's tau %.2f\n",
              job.size(), chosen, best["name"].get<std::string>().c_str(), fastest, tau);
  CHECK(chosen > 0);  // it was measured
  CHECK(chosen < 1.05 * fastest);
  // Allowed Liger, zplan plans 8 x 1 without it, which the grid lacks: 1.5 % from the fused loss, a tie that packages break.
  std::printf("with Liger's fused loss: %.3f s, the chosen plan %.1f %% slower\n", with_packages,
              100 * (chosen / with_packages - 1));
  CHECK(chosen < 1.07 * with_packages);
  CHECK(tau > 0.85);
}
