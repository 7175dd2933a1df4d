// Two plan.json side by side.
#include "io/plan_differences.h"

#include <nlohmann/json.hpp>

#include "spec/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;
using nlohmann::json;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

json plan(int stage, double seconds, std::int64_t reserved) {
  return {{"schema", "zplan.plan/1"},
          {"inputs", {{"machine", {{"gpu", "A100-SXM4-40GB"}}}, {"versions", {{"torch", "2.11.0"}}}}},
          {"global_batch", 64},
          {"best",
           {{"strategy", {{"name", "ZeRO-" + std::to_string(stage)}, {"stage", stage}, {"ds_config", {{"zero_optimization", {{"stage", stage}}}}}}},
            {"peak", {{"allocated_bytes", 20 * kGiB}, {"reserved_bytes", reserved}}},
            {"smallest_capacity_bytes", 21 * kGiB},
            {"headroom_bytes", 2 * kGiB},
            {"host", {{"per_node_peak_bytes", 0}, {"pinned_bytes", 0}}},
            {"time", {{"step_seconds", seconds}, {"tokens_per_second_per_gpu", 1000 / seconds}, {"relative_error", 0.1}}}}}};
}

PlanDifferences of(const json& a, const json& b) {
  const MapFiles files{{"a.json", a.dump()}, {"b.json", b.dump()}};
  return plan_differences(files, "a.json", "b.json");
}

}  // namespace

TEST_CASE("what differs between two plans", "[io]") {
  json second = plan(2, 15, 30 * kGiB);
  second["inputs"]["machine"]["gpu"] = "H100";
  const auto d = of(plan(3, 10, 24 * kGiB), second);
  CHECK(d.names == std::array<std::string, 2>{"ZeRO-3", "ZeRO-2"});
  CHECK(d.time_ratio == 1.5);
  CHECK(!d.tied);
  REQUIRE(d.settings.size() == 2);  // texts made from the settings are not repeated
  CHECK(d.settings[0].key == "ds_config/zero_optimization/stage");
  CHECK(d.settings[0].values == std::array<std::string, 2>{"3", "2"});
  CHECK(d.settings[1].key == "inputs/machine/gpu");
  const std::string text = plan_differences_text(d);
  CHECK(text.find("reserved_bytes") != std::string::npos);
  CHECK(text.find("+6.0 GiB") != std::string::npos);
  CHECK(text.find("B takes 1.50x the time of A.") != std::string::npos);
  CHECK(plan_differences_json(d)["figures"]["reserved_bytes"] == nlohmann::ordered_json::array({24.0 * kGiB, 30.0 * kGiB}));
}

TEST_CASE("plans closer than their uncertainty are a tie, and a plan equals itself", "[io]") {
  CHECK(of(plan(3, 10, 24 * kGiB), plan(3, 10.5, 24 * kGiB)).tied);
  const auto same = of(plan(3, 10, 24 * kGiB), plan(3, 10, 24 * kGiB));
  CHECK(same.settings.empty());
  CHECK(plan_differences_text(same).find("Nothing was asked or chosen differently.") != std::string::npos);
}

TEST_CASE("where nothing fitted there are no figures", "[io]") {
  json none = plan(3, 10, 24 * kGiB);
  none["best"] = nullptr;
  const auto d = of(none, plan(3, 10, 24 * kGiB));
  CHECK(d.names[0].empty());
  CHECK(d.figures.empty());
  CHECK(plan_differences_text(d).find("nothing fits") != std::string::npos);
  CHECK(plan_differences_json(d)["time_ratio"].is_null());
}

TEST_CASE("what is no plan is an input error with its place", "[io]") {
  const auto good = plan(3, 10, 24 * kGiB);
  json simulation = good, cut = good, textual = good;
  simulation["schema"] = "zplan.simulation/1";
  cut["best"].erase("peak");
  textual["best"]["time"]["step_seconds"] = "fast";
  const auto [bad, where] = GENERATE_COPY(table<json, const char*>({
      {simulation, "b.json:/schema"},
      {json::object(), "b.json:/schema"},
      {cut, "b.json:/best"},
      {textual, "b.json:/best/time/step_seconds"},
  }));
  CHECK(error_text([&, bad = bad] { of(good, bad); }).find(where) != std::string::npos);
}
