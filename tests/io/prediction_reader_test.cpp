#include "io/prediction_reader.h"

#include "io/durations.h"
#include "spec/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;

namespace {

// A simulation as `zplan simulate --json` prints it, as far as it is read, with one part replaced.
std::string simulation(const std::string& instead = "", const std::string& by = "") {
  std::string s = R"({"schema": "zplan.simulation/1", "outcome": "ok",
    "inputs": {"model": {"name": "Qwen3-8B"}, "machine": {"gpu": "H200", "gpus_per_node": 4},
               "ds_config": {"zero_optimization": {"stage": 3}}},
    "phases": [
      {"phase": "start", "reserved_bytes": 0, "reserved_peak_bytes": 0},
      {"phase": "load", "reserved_bytes": 100, "reserved_peak_bytes": 150},
      {"phase": "init", "reserved_bytes": 300, "reserved_peak_bytes": 400},
      {"step": 0, "micro_step": 0, "phase": "forward", "reserved_bytes": 500, "reserved_peak_bytes": 600},
      {"step": 0, "micro_step": 0, "phase": "backward", "reserved_bytes": 700, "reserved_peak_bytes": 700},
      {"step": 0, "micro_step": 1, "phase": "forward", "reserved_bytes": 550, "reserved_peak_bytes": 580}],
    "peak": {"reserved_bytes": 700}, "outside_allocator_bytes": {"cuda_context": 10, "nccl": 20, "other": 30},
    "device_capacity_bytes": 5000, "time": {"step_seconds": 2.5}, "new key": 1})";
  if (!instead.empty()) s.replace(s.find(instead), instead.size(), by);
  return s;
}

Prediction read(const std::string& text) {
  const MapFiles files{{"p.json", text}};
  return read_prediction(files, "p.json");
}

std::string plan(const std::string& best) { return R"({"schema": "zplan.plan/1", "best": )" + best + "}"; }

}  // namespace

TEST_CASE("a prediction is read from a simulation, micro-steps of a phase taken together", "[io]") {
  const Prediction p = read(simulation());
  CHECK(p.model == "Qwen3-8B");
  CHECK(p.gpu == "H200");
  CHECK(p.gpus_per_node == 4);
  CHECK(p.capacity == Bytes{5000});
  CHECK(p.reserved == Bytes{700});
  CHECK(p.outside == Bytes{60});
  CHECK(p.peak() == Bytes{760});
  CHECK(p.step == Seconds{2.5});
  CHECK(p.rank_difference == Bytes{});  // stage 3
  REQUIRE(p.curve.size() == 4);
  CHECK(p.curve[1].phase == "init");
  CHECK(p.after_init() == Bytes{360});
  CHECK(p.curve[2].step == 0);
  CHECK(p.curve[2].peak == Bytes{660});
  CHECK(p.curve[2].end == Bytes{610});
}

TEST_CASE("how far ranks differ is what the ranks looked at say; stages 1 and 2 do not say it otherwise", "[io]") {
  CHECK(!read(simulation("\"stage\": 3", "\"stage\": 2")).rank_difference);
  CHECK(read(simulation("{\"zero_optimization\": {\"stage\": 3}}", "{}")).rank_difference == Bytes{});
  const std::string ranks =
      R"("ranks": [{"reserved_peak_bytes": 700}, {"reserved_peak_bytes": 550}, {"reserved_peak_bytes": 600}])";
  CHECK(read(simulation("\"new key\": 1", ranks)).rank_difference == Bytes{150});
}

TEST_CASE("the best of a plan is read with its strategy", "[io]") {
  const Prediction p = read(plan(R"({"strategy": {"name": "ZeRO-3, 2 x 8"}, "simulation": )" + simulation() + "}"));
  CHECK(p.strategy == "ZeRO-3, 2 x 8");
  CHECK(p.reserved == Bytes{700});
}

TEST_CASE("what is no prediction is refused by file and pointer", "[io]") {
  const auto [text, error] = GENERATE_COPY(table<std::string, std::string>({
      {plan("null"),
       "p.json:/best: nothing fits in this plan\n  fix: give a plan that fits, or what `zplan simulate "
       "--json` printed for the job"},
      {R"({"schema": "zplan.check/1"})",
       "p.json:/schema: 'zplan.check/1' is no prediction\n  fix: give the plan.json of "
       "`zplan plan`, or what `zplan simulate --json` printed"},
      {simulation("\"ok\"", "\"oom\""),
       "p.json:/outcome: the simulated run does not complete\n  fix: give a plan that "
       "fits, or simulate without --capacity"},
  }));
  CHECK(error_text([&, t = text] { read(t); }) == error);
  CHECK_THROWS_AS(read("{}"), InputError);
  CHECK_THROWS_AS(read(simulation("\"peak\"", "\"peek\"")), InputError);
  CHECK_THROWS_AS(read_prediction(MapFiles{}, "p.json"), InputError);
}

TEST_CASE("durations have a unit", "[io]") {
  const auto [text, seconds] = GENERATE(table<const char*, double>(
      {{"500ms", 0.5}, {"1s", 1}, {"2.5s", 2.5}, {"10m", 600}, {"10min", 600}, {"2h", 7200}}));
  CHECK(parse_seconds(text, "--interval") == Seconds{seconds});
  const auto wrong = GENERATE("1", "s", "-1s", "0s", "1d", "", "1e999s");
  CHECK_THROWS_AS(parse_seconds(wrong, "--interval"), InputError);
}
