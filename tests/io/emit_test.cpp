#include "io/emit.h"

#include "io/ds_config_reader.h"
#include "io/emit_arguments.h"
#include "io/json_text.h"
#include "spec/error.h"
#include "tests/catch.h"
#include "tests/io/emit_plans.h"

using namespace zplan;

namespace {

Run run_of(int stage) {
  Run run;
  run.model.name = "m";
  run.model.hidden = 1024;
  run.versions = default_versions();
  run.ds.zero.stage = stage;
  run.world_size = 4;
  return run;
}

Cluster cluster_of(std::int64_t nodes, std::int64_t gpus) {
  Cluster cluster;
  cluster.asked = std::to_string(nodes) + "x" + std::to_string(gpus) + "xA";
  cluster.nodes = nodes;
  cluster.node.gpus = gpus;
  return cluster;
}

std::vector<std::string> names(const std::vector<OutputFile>& files) {
  std::vector<std::string> all;
  for (const auto& file : files) all.push_back(file.name);
  return all;
}

std::string refusal(const Run& run, const Cluster& cluster) {
  try {
    emit_files(run, cluster, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the files of a plan depend on launcher, nodes and script", "[io]") {
  using Names = std::vector<std::string>;
  const auto [launcher, nodes, script,
              expected] = GENERATE(table<Launcher, std::int64_t, std::string, Names>({
      {Launcher::DeepSpeed, 1, "", {"ds_config.json", "launch.sh", "train.py"}},
      {Launcher::DeepSpeed, 2, "", {"ds_config.json", "launch.sh", "train.py", "hostfile"}},
      {Launcher::Torchrun, 2, "", {"ds_config.json", "launch.sh", "train.py"}},
      {Launcher::Accelerate, 1, "", {"ds_config.json", "launch.sh", "train.py", "accelerate.yaml"}},
      {Launcher::Slurm, 2, "mine.py", {"ds_config.json", "launch.sh"}},
  }));
  EmitOptions options;
  options.launcher = launcher;
  options.script = script;
  const auto files = emit_files(run_of(2), cluster_of(nodes, 4 / nodes), options);
  CHECK(names(files) == expected);
  for (const auto& file : files) CHECK(file.executable == (file.name == "launch.sh"));
}

TEST_CASE("a strategy that the plan's versions cannot run is refused", "[io]") {
  Run run = run_of(3);
  SECTION("every second layer came with transformers 5.16") {
    run.workload.recompute.every = 2;
    run.versions.transformers = {5, 16, 0};
    CHECK(refusal(run, cluster_of(1, 4)).empty());
    run.versions.transformers = {5, 15, 1};
    CHECK(refusal(run, cluster_of(1, 4)) ==
          "--recompute every-2: transformers 5.15.1 cannot do this; it came with 5.16.0\n"
          "  fix: use --recompute full or none");
  }
  SECTION("adapters, ZeRO-3 and non-reentrant recomputation work from DeepSpeed 0.19.3 on") {
    run.workload.finetune = Finetune::Lora;
    run.workload.recompute.every = 1;
    run.versions.deepspeed = {0, 19, 3};
    CHECK(refusal(run, cluster_of(1, 4)).empty());
    run.versions.deepspeed = {0, 19, 2};
    CHECK(refusal(run, cluster_of(1, 4)) ==
          "adapters under ZeRO-3 with --recompute-impl non-reentrant: DeepSpeed 0.19.2 cannot do "
          "this; it came with "
          "0.19.3\n  fix: use --recompute-impl reentrant");
    run.workload.recompute.impl = RecomputeImpl::Reentrant;
    CHECK(refusal(run, cluster_of(1, 4)).empty());
  }
  SECTION("another number of GPUs than the plan's") {
    CHECK(refusal(run, cluster_of(2, 4)) ==
          "--gpus 2x4xA: the plan is for 4 ranks, the cluster has 8 GPUs\n  fix: plan for the GPUs "
          "that there are");
  }
}

TEST_CASE("zplan reads back every ds_config.json as the strategy it was written from", "[io]") {
  for (const EmitCase& c : emit_cases()) {
    INFO(c.name);
    DsContext context{c.run.world_size, c.run.versions, {}};
    if (c.options.keep_auto) {
      context.hf = HfArguments{c.run.model.hidden, c.run.ds.train_micro_batch_size_per_gpu,
                               c.run.ds.gradient_accumulation_steps, c.run.ds.gradient_clipping,
                               c.run.ds.precision};
    }
    const auto file = read_ds_config(emit_ds_config(c.run, c.options), "ds_config.json", context);
    CHECK(file.config == c.run.ds);
    for (const Note& note : file.notes) FAIL_CHECK(note.code << ": " << note.text);
    CHECK(file.optimizer_type ==
          (c.run.workload.optimizer == OptimizerKind::DeepSpeedAdam ? "adamw" : ""));
  }
}

TEST_CASE("auto stands only where the Trainer's formula gives the planned number", "[io]") {
  Run run = run_of(3);  // hidden 1024: 1048576, 943718 and 10240
  run.ds.zero.reduce_bucket_size = 1'048'576;
  run.ds.zero.stage3_prefetch_bucket_size = 943'717;
  EmitOptions options;
  options.keep_auto = true;
  const std::string text = emit_ds_config(run, options);
  CHECK(text.find("\"reduce_bucket_size\": \"auto\"") != std::string::npos);
  CHECK(text.find("\"stage3_prefetch_bucket_size\": 943717") != std::string::npos);
  CHECK(emit_ds_config(run, {}).find("auto") == std::string::npos);
}

TEST_CASE("a shell reads every word back", "[io]") {
  const auto [word, expected] = GENERATE(table<std::string, std::string>({
      {"Qwen/Qwen3-8B", "Qwen/Qwen3-8B"},
      {"", "''"},
      {"my model", "'my model'"},
      {"it's", "'it'\\''s'"},
      {"$HOME", "'$HOME'"},
  }));
  CHECK(shell_word(word) == expected);
}

TEST_CASE("JSON is laid out as a person writes it", "[io]") {
  const auto value = nlohmann::ordered_json::parse(
      R"({"b": {"enabled": true}, "a": [0.9, 0.999], "c": {"x": 1, "y": {}}})");
  CHECK(json_text(value) == R"({
  "b": {"enabled": true},
  "a": [0.9, 0.999],
  "c": {
    "x": 1,
    "y": {}
  }
})");
}

TEST_CASE("train.py is carried whole", "[io]") {
  const std::string text = train_script();
  CHECK(text.substr(0, 3) == "\"\"\"");
  CHECK(text.substr(text.size() - 11) == "    main()\n");
}
