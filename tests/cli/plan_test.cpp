// The commands end to end: what they print, write and end with.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run.h"

using namespace zplan;
using namespace zplan::testing;
using nlohmann::json;
namespace fs = std::filesystem;


TEST_CASE("plan writes the files of the main job, and plan.json repeats what --json prints", "[cli]") {
  const Folder folder("main");
  const auto r = zplan_run({"--model", "qwen3-8b", "--gpus", "4xA100-40G", "--out", folder.path(), "--json"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  for (const char* file : {"ds_config.json", "launch.sh", "train.py", "plan.json"}) CHECK(folder.has(file));
  CHECK(!folder.has("hostfile"));
  const json plan = json::parse(r.out);
  CHECK(plan == json::parse(folder.read("plan.json")));
  CHECK(plan["best"]["fits"] == true);
  CHECK(plan["searched"]["strategies"] >= 200'000);
  CHECK(json::parse(folder.read("ds_config.json"))["zero_optimization"]["stage"] == plan["best"]["strategy"]["stage"]);
  CHECK(plan["best"]["smallest_capacity_bytes"].get<std::int64_t>() <= 42'300'000'000);
}

TEST_CASE("where nothing fits plan ends with 1, says what would and writes nothing", "[cli]") {
  const Folder folder("nothing");
  const auto r = zplan_run({"--model", "qwen3-8b", "--gpus", "1xRTX4090", "--host-ram", "24GiB", "--out", folder.path()});
  CHECK(r.code == 1);
  CHECK(r.out.find("Nothing fits") != std::string::npos);
  CHECK(r.out.find("--finetune lora") != std::string::npos);
  CHECK(r.out.find("of these GPUs") != std::string::npos);
  CHECK(!folder.has(""));
}

TEST_CASE("input errors of plan, simulate and compare end with 2 and write nothing", "[cli]") {
  const Folder folder("errors");
  const std::vector<std::string> job = {"--model", "qwen3-8b", "--gpus", "4xA100-40G", "--out", folder.path()};
  const auto with = [&](std::initializer_list<std::string> more) {
    auto words = job;
    words.insert(words.end(), more);
    return words;
  };
  for (const auto& words : {with({"--fix", "stage=4"}), with({"--fix", "sub_group_size"}), with({"--fix", "colour=red"}), with({"--allow", "apex"}),
                            with({"--objective", "beauty"}), with({"--launcher", "ssh"}), with({"--global-batch", "63"}), with({"--micro-batch", "-1"}),
                            with({"--max-host-ram", "64GB"}), std::vector<std::string>{"plan", "no-such-file.json"},
                            std::vector<std::string>{"compare", "no-such-file.jsonl"}, std::vector<std::string>{"simulate", "--model", "qwen3-8b", "--gpus", "4xA100-40G"}}) {
    const auto r = zplan_run(words);
    INFO(words.back() << ": " << r.err);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK(r.err.rfind("zplan: error: ", 0) == 0);
    CHECK(r.err.find("\n  fix: ") != std::string::npos);
    CHECK(!folder.has(""));
  }
}

TEST_CASE("--fix pins a choice", "[cli]") {
  const auto r = zplan_run({"--model", "qwen3-0.6b", "--gpus", "4xA100-40G", "--fix", "stage=2", "--fix", "micro_batch=2", "--no-files", "--json"});
  REQUIRE(r.code == 0);
  const json plan = json::parse(r.out);
  CHECK(plan["best"]["strategy"]["stage"] == 2);
  CHECK(plan["best"]["strategy"]["micro_batch"] == 2);
  for (const std::string offload : {"none", "optimizer", "optimizer+param"}) {
    const auto fixed = zplan_run({"--model", "qwen3-0.6b", "--gpus", "4xA100-40G", "--fix", "offload=" + offload, "--fix",
                                  "stage=3", "--no-files", "--json"});
    REQUIRE(fixed.code == 0);
    CHECK(json::parse(fixed.out)["best"]["strategy"]["offload"] == offload);
  }
  for (const auto* stage : {"stage=2", "stage=3"}) {  // whose defaults differ
    for (const bool on : {false, true}) {
      const auto fixed = zplan_run({"--model", "qwen3-0.6b", "--gpus", "4xA100-40G", "--fix", stage, "--fix",
                                    std::string("overlap_comm=") + (on ? "true" : "false"), "--no-files", "--json"});
      REQUIRE(fixed.code == 0);
      CHECK(json::parse(fixed.out)["best"]["strategy"]["ds_config"]["zero_optimization"]["overlap_comm"] == on);
    }
  }
}

TEST_CASE("simulate --like takes a record's inputs; its limit decides", "[cli]") {
  const std::string runs = std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/runs.jsonl#";
  const auto fits = zplan_run({"simulate", "--like", runs + "b01c39.5", "--json"});
  INFO(fits.err);
  CHECK(fits.code == 0);
  CHECK(json::parse(fits.out)["outcome"] == "ok");
  const auto short_of = zplan_run({"simulate", "--like", runs + "b01c37.5", "--json"});
  CHECK(short_of.code == 1);
  CHECK(json::parse(short_of.out)["outcome"] == "oom");
  CHECK(json::parse(short_of.out)["oom"]["requested_bytes"] > 0);
}

TEST_CASE("compare ends with 1 when a tolerance is exceeded", "[cli]") {
  const std::string runs = std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/runs.jsonl";
  const Folder folder("compare");
  fs::create_directories(folder.path());
  std::ifstream in(runs);
  std::string first;
  std::getline(in, first);
  const std::string one = folder.path() + "/one.json";
  std::ofstream(one) << first;
  const auto r = zplan_run({"compare", one, "--json"});
  REQUIRE(r.code == 0);
  const json comparison = json::parse(r.out);
  CHECK(comparison["schema"] == "zplan.comparison/1");
  CHECK(comparison["runs"].size() == 1);
  CHECK(comparison["summary"]["allocated_peak"]["runs"] == 1);
  CHECK(zplan_run({"compare", one, "--tolerance", "allocated_peak=5%,5%"}).code == 0);
  CHECK(zplan_run({"compare", one, "--tolerance", "step_seconds=5%"}).code == 1);  // it was not timed
  CHECK(zplan_run({"compare", one, "--tolerance", "allocated=5%"}).code == 2);
}

TEST_CASE("plan --compare shows two plans that were written", "[cli]") {
  const Folder a("compare-a"), b("compare-b");
  for (const auto& [folder, stage] : {std::pair(&a, "stage=2"), std::pair(&b, "stage=3")}) {
    REQUIRE(zplan_run({"--model", "qwen3-0.6b", "--gpus", "4xA100-40G", "--fix", stage, "--out", folder->path()}).code == 0);
  }
  const auto r = zplan_run({"--compare", a.path() + "/plan.json", b.path() + "/plan.json"});
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out.find("ds_config/zero_optimization/stage") != std::string::npos);
  CHECK(zplan_run({"--compare", a.path() + "/plan.json", b.path() + "/ds_config.json"}).code == 2);
}
