#include <fstream>
#include <map>

#include "collectives/stand_in.h"
#include "run/arguments.h"
#include "run/launch.h"
#include "run/progress.h"
#include "run/recorder.h"
#include "runs.h"
#include "spec/error.h"
#include "tests/catch.h"

namespace zplan::trainer {
namespace {

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto at = values.find(name);
    return at == values.end() ? nullptr : at->second.c_str();
  };
}

Parsed parse(std::vector<const char*> words) {
  words.insert(words.begin(), "zplan-validate");
  return parse_arguments(static_cast<int>(words.size()), words.data(), ZPLAN_SOURCE_DIR);
}

}  // namespace

TEST_CASE("the launcher is recognised by its variables", "[validate][run]") {
  struct Row { const char* by; std::map<std::string, std::string> set; int rank, world, local; };
  const std::vector<Row> rows = {
      {"torchrun", {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}, 5, 8, 1},
      {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}, 2, 4, 0},
      {"MPICH", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}, 1, 2, 1},
      {"Slurm", {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "3"}}, 3, 16, 3},
  };
  for (const Row& row : rows) {
    INFO(row.by);
    const auto who = launched(environment(row.set));
    REQUIRE(who);
    CHECK(who->by == row.by);
    CHECK(who->rank == row.rank);
    CHECK(who->world == row.world);
    CHECK(who->local_rank == row.local);
  }
  CHECK_FALSE(launched(environment({})));
  CHECK_FALSE(launched(environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})));  // a shell in an allocation
  CHECK_THROWS_AS(launched(environment({{"RANK", "8"}, {"WORLD_SIZE", "8"}})), InputError);
  CHECK_THROWS_AS(launched(environment({{"RANK", "x"}, {"WORLD_SIZE", "8"}})), InputError);
  CHECK_THROWS_AS(share_over_tcp({}, environment({}), 1), InputError);
}

TEST_CASE("options become a run, and a ds_config as the Trainer fills it", "[validate][run]") {
  const Plan plan = parse({"--model", "qwen3-8b", "--stage", "3", "--world", "4", "--rank", "2", "--stand-in", "--seq-len",
                           "2048", "--recompute", "full", "--capacity", "37.5GiB", "--steps", "3"}).plan;
  CHECK(plan.run.model.hidden == 4096);
  CHECK(plan.run.world_size == 4);
  CHECK(plan.run.rank == 2);
  CHECK(plan.ranks_here == 1);
  CHECK(plan.run.steps == 3);
  CHECK(plan.run.workload.recompute.every == 1);
  CHECK(plan.run.capacity_limit == Bytes{40265318400});
  CHECK(plan.run.ds.zero.stage == 3);
  CHECK(plan.run.ds.zero.reduce_bucket_size == 16777216);
  CHECK(plan.run.ds.zero.stage3_prefetch_bucket_size == 15099494);
  CHECK(plan.run.ds.zero.stage3_param_persistence_threshold == 40960);
  CHECK(plan.run.ds.precision == Precision::Bf16);
  CHECK(parse({"--layers", "6"}).plan.run.model.layers == 6);
}

TEST_CASE("options that cannot be meant are refused", "[validate][run]") {
  struct Row { std::vector<const char*> words; const char* where; };
  const std::vector<Row> rows = {{{"--device", "tpu"}, "--device"},
                                 {{"--capacity", "forty"}, "--capacity"},
                                 {{"--capacity", "40GB"}, "--capacity"},
                                 {{"--stand-in", "--world", "4", "--rank", "4"}, "--rank"},
                                 {{"--rehearse", "die"}, "--rehearse"},
                                 {{"--recompute", "some"}, "--recompute"},
                                 {{"--model", "qwen9"}, "--model"}};
  for (const Row& row : rows) {
    INFO(row.where);
    try {
      parse(row.words);
      FAIL("accepted");
    } catch (const InputError& e) {
      CHECK(e.where() == row.where);
      CHECK_FALSE(e.fix().empty());
    }
  }
  CHECK(parse({"--no-such-option"}).exit == 2);
}

TEST_CASE("the stand-in plays ranks that hold what this one holds", "[validate][collectives]") {
  const auto c = stand_in_communicator(1, 4);
  CHECK(c->size() == 4);
  const at::Tensor x = at::arange(4, at::kFloat);
  at::Tensor sum = x.clone();
  c->all_reduce(sum);
  CHECK(at::equal(sum, x * 4));
  at::Tensor all = at::full({16}, -1.0f);
  c->all_gather(all, x);
  CHECK(at::equal(all, x.repeat({4})));
  at::Tensor mine = at::empty({4});
  c->reduce_scatter(mine, at::arange(16, at::kFloat));
  CHECK(at::equal(mine, at::arange(4, 8, at::kFloat) * 4));
}

TEST_CASE("a stand-in run has the buffers of its rank and finite losses", "[validate][run]") {
  Plan plan = tiny_plan();
  plan.stand_in = true;
  plan.run.world_size = 8;
  plan.run.rank = 5;
  plan.run.steps = 4;
  for (const int stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    plan.run.ds.zero.stage = stage;
    const TemporaryFolder folder;
    const Outcome outcome = run(plan, folder);
    INFO(outcome.message);
    REQUIRE(outcome.code == kOk);
    CHECK(outcome.record["ranks"] == "fake");
    CHECK(outcome.record["rank"] == 5);
    CHECK(outcome.record["world_size"] == 8);
    for (const auto& loss : outcome.record["losses"]) CHECK(loss.get<double>() < 6);
  }
}

TEST_CASE("a record has the phases in order, and what a comparison needs", "[validate][run]") {
  Plan plan = tiny_plan();
  plan.run.world_size = 2;
  plan.run.ds.zero.stage = 3;
  plan.run.ds.gradient_accumulation_steps = 2;
  plan.run.steps = 2;
  plan.timed_steps = 2;
  const TemporaryFolder folder;
  plan.monitor = "";
  const Outcome outcome = run(plan, folder);
  INFO(outcome.message);
  REQUIRE(outcome.code == kOk);
  std::string order;
  for (const auto& p : outcome.record["phases"]) {
    order += p["phase"].get<std::string>() +
             (p.contains("step") ? std::to_string(p["step"].get<int>()) + std::to_string(p["micro_step"].get<int>()) : "") + " ";
    CHECK(p["host_rss_bytes"].get<std::int64_t>() > 0);
    CHECK(p["seconds"].get<double>() >= 0);
  }
  CHECK(order == "start load init forward00 backward00 step00 forward01 backward01 step01 "
                 "forward10 backward10 step10 forward11 backward11 step11 ");
  CHECK(outcome.record["schema"] == "zplan.measurement/1");
  CHECK(outcome.record["optimizer_classes"] == "DeepSpeedZeroOptimizer_Stage3/FusedAdam");
  CHECK(outcome.record["workload"]["grad_accum"] == 2);
  CHECK(outcome.record["loop_step_seconds"].size() == 2);
  CHECK(outcome.record["step_seconds"].size() == 2);
  std::ifstream other(folder.path("measurements.rank1.json"));
  CHECK(nlohmann::json::parse(other)["rank"] == 1);
}

TEST_CASE("records are named by rank", "[validate][run]") {
  CHECK(record_path("a/m.json", 0) == "a/m.json");
  CHECK(record_path("a/m.json", 3) == "a/m.rank3.json");
  CHECK(record_path("a.b/m", 3) == "a.b/m.rank3");
}

TEST_CASE("metrics are Prometheus text", "[validate][run]") {
  PhaseRecord record;
  record.phase = Phase::Backward;
  record.step = 2;
  record.memory.device.allocated_peak = {123456789012};
  const std::string text = prometheus_text(record, 1, 2.5);
  CHECK(text.find("# TYPE zplan_validate_allocated_peak_bytes gauge\n"
                  "zplan_validate_allocated_peak_bytes{rank=\"1\",phase=\"backward\"} 123456789012\n") != std::string::npos);
  CHECK(text.find("zplan_validate_loss{rank=\"1\",phase=\"backward\"} 2.5\n") != std::string::npos);
}

}  // namespace zplan::trainer
