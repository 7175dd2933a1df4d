#include "io/report_json.h"
#include "io/report_text.h"
#include "tests/catch.h"
#include "tests/plan/small_question.h"

using namespace zplan;

namespace {

PlanReport small_report(Bytes for_torch) {
  PlanReport r;
  r.version = "0.0.0";
  r.question = testing::small_question(for_torch);
  if (for_torch < MiB(500)) r.question.axes.offloads = {Offload::None};  // then nothing fits
  r.result = search(r.question);
  r.plans = ranked(r.question, r.result);
  if (!r.plans.empty()) {
    SimulationReport s;
    s.version = r.version;
    s.run = applied(r.plans.front().candidate.strategy, r.question.base);
    s.cluster = r.question.cluster;
    s.simulation = simulate_plan(r.question, r.result, r.plans.front().candidate.strategy);
    s.time = r.plans.front().candidate.time;
    r.best = s;
    r.reasons = setting_reasons(r.question, r.result, r.plans.front());
  } else {
    r.changes = what_would_fit(r.question, r.result);
  }
  r.rejected = why_not(r.question, r.result, r.plans.empty() ? nullptr : &r.plans.front());
  return r;
}

void has_keys(const nlohmann::ordered_json& j, std::initializer_list<const char*> keys) {
  for (const char* k : keys) {
    INFO(k);
    CHECK(j.contains(k));
  }
}

}  // namespace

TEST_CASE("zplan.simulation/1 has every key of its contract, and the parts of the peak add up", "[io]") {
  const auto r = small_report(MiB(1900));
  REQUIRE(r.best);
  const auto j = simulation_json(*r.best);
  CHECK(j["schema"] == "zplan.simulation/1");
  has_keys(j, {"zplan_version", "inputs", "rank", "world_size", "outcome", "phases", "peak", "smallest_capacity_bytes", "outside_allocator_bytes",
               "device_capacity_bytes", "fits", "host", "nvme", "time", "notes"});
  has_keys(j["peak"], {"allocated_bytes", "reserved_bytes", "device_bytes", "at", "by_component"});
  has_keys(j["peak"]["at"], {"step", "phase", "event"});
  has_keys(j["outside_allocator_bytes"], {"cuda_context", "nccl", "other"});
  has_keys(j["host"], {"per_rank_peak_bytes", "per_node_peak_bytes", "pinned_bytes"});
  has_keys(j["time"], {"step_seconds", "tokens_per_second_per_gpu", "parts"});
  has_keys(j["phases"].back(), {"step", "micro_step", "phase", "allocated_bytes", "allocated_peak_bytes", "reserved_bytes", "reserved_peak_bytes",
                                "host_bytes", "host_pinned_bytes"});
  std::int64_t sum = 0;
  for (const auto& [name, bytes] : j["peak"]["by_component"].items()) {
    if (name != "fragmentation") sum += bytes.get<std::int64_t>();
  }
  CHECK(sum == j["peak"]["allocated_bytes"].get<std::int64_t>());
  CHECK(j["outcome"] == "ok");
  CHECK(j["fits"] == true);
  double parts = 0;
  for (const auto& [name, seconds] : j["time"]["parts"].items()) parts += seconds.get<double>();
  CHECK(parts == Approx(j["time"]["step_seconds"].get<double>()));
}

TEST_CASE("a simulation that ran out of memory says where", "[io]") {
  const auto r = small_report(MiB(1900));
  SimulationReport s = *r.best;
  s.run.capacity_limit = s.simulation.peak.allocated - MiB(100);
  s.simulation = simulate(s.run, Detail::Components);
  const auto j = simulation_json(s);
  CHECK(j["outcome"] == "oom");
  CHECK(j["fits"] == false);
  has_keys(j["oom"], {"phase", "event", "requested_bytes", "free_bytes"});
  CHECK(simulation_text(s, {}).find("Runs out of memory") != std::string::npos);
}

TEST_CASE("zplan.plan/1 has every key of its contract, with a plan and without", "[io]") {
  for (const Bytes memory : {MiB(1400), MiB(450)}) {
    const auto r = small_report(memory);
    const auto j = plan_json(r);
    CHECK(j["schema"] == "zplan.plan/1");
    has_keys(j, {"best", "alternatives", "rejected", "searched", "inputs", "assumptions", "notes"});
    has_keys(j["searched"], {"strategies", "simulated", "seconds"});
    if (r.plans.empty()) {
      CHECK(j["best"].is_null());
      CHECK(!j["what_would_fit"].empty());
      CHECK(!j["rejected"].empty());
    } else {
      has_keys(j["best"], {"strategy", "files", "simulation", "time", "headroom_bytes", "oom_probability"});
      CHECK(j["best"]["strategy"]["ds_config"]["zero_optimization"]["stage"] == 3);
    }
  }
}

TEST_CASE("reports have colours only where they are asked for", "[io]") {
  const auto r = small_report(MiB(1400));
  for (const bool colour : {false, true}) {
    CHECK((plan_text(r, {colour}).find('\x1b') != std::string::npos) == colour);
    CHECK((simulation_text(*r.best, {colour}).find('\x1b') != std::string::npos) == colour);
  }
}

TEST_CASE("a plan's report names the plan, what it leaves free, each GPU and what lost", "[io]") {
  const auto text = plan_text(small_report(MiB(1400)), {});
  for (const char* part : {"small on 4 x small GPU", "Plan  ", "to spare", "GPU 0-3", "Peak  ", "allocated", "Searched", "strategies"}) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
  const auto nothing = plan_text(small_report(MiB(450)), {});
  CHECK(nothing.find("Nothing fits") != std::string::npos);
  CHECK(nothing.find("Would fit") != std::string::npos);
}
