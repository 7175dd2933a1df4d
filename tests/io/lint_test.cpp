#include "io/lint.h"

#include <nlohmann/json.hpp>

#include "io/gpus_option.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/io/catalog.h"

using namespace zplan;
using nlohmann::json;

namespace {

LintSubject subject(const char* gpus = "8xA100-80G", const char* model = "Qwen3-8B") {
  LintSubject s;
  s.cluster = parse_gpus(gpus, catalog(), MapFiles{}).cluster;
  s.run.model = find_model(catalog(), model, "test").model;
  s.run.gpu = s.cluster.node.gpu;
  s.run.world_size = s.cluster.world_size();
  s.run.versions = default_versions();
  s.run.workload.recompute.every = 1;
  s.run.workload.kernels.fused_linear_cross_entropy = true;
  return s;
}

// Stage 3 in bf16 with an AdamW block and nothing to complain about, changed by a merge patch.
json good(const json& patch = json::object()) {
  json config = {{"train_micro_batch_size_per_gpu", 1},
                 {"gradient_accumulation_steps", 1},
                 {"gradient_clipping", 1.0},
                 {"bf16", {{"enabled", true}}},
                 {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-5}}}}},
                 {"zero_optimization",
                  {{"stage", 3},
                   {"reduce_bucket_size", 700000000},
                   {"sub_group_size", 100000000},
                   {"stage3_gather_16bit_weights_on_model_save", true}}}};
  config.merge_patch(patch);
  return config;
}

LintResult linted(const json& config, const LintSubject& s = subject()) { return lint(config.dump(), "ds.json", s); }

std::string rules(const LintResult& result) {
  std::string list;
  for (const Finding& f : result.findings) {
    list += (list.empty() ? "" : " ");
    list += f.level == Finding::Level::Error ? "E:" : f.level == Finding::Level::Warning ? "W:" : "I:";
    list += f.rule;
  }
  return list;
}

json zero(const json& patch) { return {{"zero_optimization", patch}}; }

}  // namespace

TEST_CASE("a sound config has no findings", "[io]") {
  const LintResult result = linted(good());
  INFO(lint_text(result, "ds.json", subject()));
  CHECK(rules(result).empty());
}

TEST_CASE("rules that look at the file alone", "[io]") {
  const auto [name, patch, expected] = GENERATE(table<const char*, json, const char*>({
      {"batch sizes that do not multiply", {{"train_batch_size", 9}}, "E:A01"},
      {"no batch size", {{"train_micro_batch_size_per_gpu", nullptr}}, "E:A02"},
      {"both precisions", {{"fp16", {{"enabled", true}}}}, "E:B01"},
      {"fp16 where bf16 works", {{"bf16", nullptr}, {"fp16", {{"enabled", true}}}}, "I:B05"},
      {"fp32", {{"bf16", nullptr}}, "W:B06"},
      {"amp", {{"amp", {{"enabled", true}}}}, "E:B11"},
      {"loss scale", {{"fp16", {{"loss_scale", true}}}}, "E:B12"},
      {"communication type", {{"communication_data_type", "int8"}}, "E:B13"},
      {"unknown key in zero", zero({{"stage3_max_live", 1}}), "E:C01"},
      {"unknown key at the top", {{"zero_optimisation", {{"stage", 2}}}}, "W:C02"},
      {"auto that the Trainer does not fill", zero({{"stage3_max_live_parameters", "auto"}}), "W:C04"},
      {"both names", zero({{"stage3_max_live_parameters", 1000000000}, {"max_live_parameters", 1}}), "E:C06"},
      {"offload_param in stage 2", zero({{"stage", 2}, {"offload_param", {{"device", "cpu"}}},
                                         {"sub_group_size", nullptr}, {"stage3_gather_16bit_weights_on_model_save", nullptr}}), "W:C07"},
      {"ratio in stage 2", zero({{"stage", 2}, {"offload_optimizer", {{"device", "none"}, {"ratio", 0.5}}}, {"sub_group_size", nullptr}}), "E:C08"},
      {"cpu_offload", zero({{"cpu_offload", false}}), "W:C09"},
      {"no weights at save", zero({{"stage3_gather_16bit_weights_on_model_save", nullptr}}), "W:C10"},
      {"nothing may stay", zero({{"stage3_max_live_parameters", 0}}), "W:C12"},
      {"no sub-groups", zero({{"sub_group_size", 0}}), "W:C13"},
      {"sub-group as large as the part", zero({{"sub_group_size", 2000000000}}), "W:C13"},
      {"bucket below the vocabulary table", zero({{"reduce_bucket_size", 16777216}}), "I:C15"},
      {"second bucket", zero({{"stage", 2}, {"overlap_comm", true}, {"sub_group_size", nullptr}}), "I:C16"},
      {"scattered gradients", zero({{"stage", 2}, {"contiguous_gradients", false}, {"sub_group_size", nullptr}}), "W:C17"},
      {"round robin without offload", zero({{"stage", 2}, {"round_robin_gradients", true}, {"sub_group_size", nullptr}}), "I:C18"},
      {"elastic checkpoint", zero({{"elastic_checkpoint", true}}), "W:C19"},
      {"old stage 1", zero({{"legacy_stage1", true}}), "E:C20"},
      {"reduced in each micro-step", {{"gradient_accumulation_steps", 4}, {"zero_optimization", {{"stage", 2}, {"sub_group_size", nullptr}}}}, "I:C23"},
      {"sum", {{"gradient_allreduce_op", "sum"}}, "E:C24"},
      {"everything persists", zero({{"stage3_param_persistence_threshold", 50000000}}), "W:C29"},
      {"hpZ over 16", zero({{"zero_hpz_partition_size", 16}}), "E:C30"},
      {"one by one", zero({{"stage3_allgather_sequential", true}}), "I:C31"},
      {"clipping in the optimizer", {{"optimizer", {{"params", {{"max_grad_norm", 1}}}}}}, "E:D06"},
      {"Adam with decay", {{"optimizer", {{"type", "Adam"}, {"params", {{"weight_decay", 0.1}}}}}}, "I:D10"},
      {"untested optimizer", {{"optimizer", {{"type", "Lamb"}}}}, "E:D11"},
      {"checkpointing section", {{"activation_checkpointing", {{"partition_activations", true}}}}, "W:E01"},
  }));
  INFO(name);
  json config = good(patch);
  if (config["zero_optimization"]["stage"] == 2) config["zero_optimization"].erase("stage3_gather_16bit_weights_on_model_save");
  const LintResult result = linted(config);
  INFO(lint_text(result, "ds.json", subject()));
  CHECK(rules(result) == expected);
}

TEST_CASE("rules that need the model, the GPUs, the workload or the versions", "[io]") {
  using Change = void (*)(LintSubject&);
  const auto none = [](LintSubject&) {};
  const auto [name, gpus, model, change, patch, expected] =
      GENERATE_COPY(table<const char*, const char*, const char*, Change, json, const char*>({
          {"bf16 on a V100", "8xV100-32G", "Qwen3-0.6B", none, json::object(), "E:B04"},
          {"stage 3 alone", "1xA100-80G", "Qwen3-0.6B", none, json::object(), "W:C21"},
          {"mixture in an old DeepSpeed", "8xH200", "Qwen3-30B-A3B",
           [](LintSubject& s) {
             s.run.versions.deepspeed = {0, 16, 9};
             s.run.versions.switches = deepspeed_switches({0, 16, 9});
           }, json::object(), "W:C25 I:C27"},
          {"mixture", "8xH200", "Qwen3-30B-A3B", none, json::object(), "I:C27"},
          {"skipped steps in an old DeepSpeed", "8xH200", "Qwen3-0.6B",
           [](LintSubject& s) {
             s.run.versions.deepspeed = {0, 16, 9};
             s.run.versions.switches = deepspeed_switches({0, 16, 9});
           }, {{"bf16", nullptr}, {"fp16", {{"enabled", true}}},
               {"zero_optimization", {{"stage", 2}, {"sub_group_size", nullptr}, {"stage3_gather_16bit_weights_on_model_save", nullptr}}}},
           "W:B14 I:B05"},
          {"default bucket on a small card", "8xA100-40G", "Qwen3-0.6B", none,
           zero({{"stage", 2}, {"reduce_bucket_size", nullptr}, {"sub_group_size", nullptr},
                 {"stage3_gather_16bit_weights_on_model_save", nullptr}}), "W:C14"},
          {"default bucket on a large card", "8xH200", "Qwen3-0.6B", none,
           zero({{"stage", 2}, {"reduce_bucket_size", nullptr}, {"sub_group_size", nullptr},
                 {"stage3_gather_16bit_weights_on_model_save", nullptr}}), ""},
          {"clipping that does not happen", "8xA100-80G", "Qwen3-8B",
           [](LintSubject& s) {
             s.run.versions.deepspeed = {0, 17, 0};
             s.run.versions.switches = deepspeed_switches({0, 17, 0});
           }, {{"gradient_clipping", nullptr}}, "W:D05"},
          {"no activation checkpointing", "8xA100-40G", "Qwen3-8B",
           [](LintSubject& s) { s.run.workload.recompute.every = 0; s.run.workload.seq_len = 4096; }, json::object(), "W:E02"},
          {"eager", "8xA100-80G", "Qwen3-8B", [](LintSubject& s) { s.run.workload.attention = Attention::Eager; },
           json::object(), "W:E07"},
          {"plain loss", "8xA100-40G", "Qwen3-8B",
           [](LintSubject& s) { s.run.workload.kernels = {}; s.run.workload.seq_len = 8192; }, json::object(), "W:E12"},
          {"long sequences", "8xH200", "Qwen3-8B", [](LintSubject& s) { s.run.workload.seq_len = 65536; }, json::object(), "W:E19"},
          {"LoRA, checkpointing, old DeepSpeed", "8xA100-80G", "Qwen3-32B",
           [](LintSubject& s) {
             s.run.workload.finetune = Finetune::Lora;
             s.run.versions.deepspeed = {0, 18, 0};
             s.run.versions.switches = deepspeed_switches({0, 18, 0});
           }, json::object(), "E:E04"},
          {"LoRA that fits whole", "8xA100-80G", "Qwen3-8B",
           [](LintSubject& s) { s.run.workload.finetune = Finetune::Lora; }, json::object(), "I:F10"},
          {"leaking DeepSpeed", "8xA100-80G", "Qwen3-8B",
           [](LintSubject& s) {
             s.run.versions.deepspeed = {0, 16, 4};
             s.run.versions.switches = deepspeed_switches({0, 16, 4});
           }, json::object(), "E:H04"},
          {"transformers that does not start", "8xA100-80G", "Qwen3-8B",
           [](LintSubject& s) { s.run.versions.transformers = {5, 1, 0}; }, json::object(), "E:H02"},
          {"host memory", "4xA100-40G", "Qwen3-32B", none,
           zero({{"reduce_bucket_size", 800000000}, {"offload_optimizer", {{"device", "cpu"}}}, {"offload_param", {{"device", "cpu"}}}}), "E:D16 I:D17"},
          {"swapped optimizer", "8xA100-80G", "Qwen3-0.6B", none,
           {{"optimizer", nullptr}, {"zero_optimization", {{"offload_optimizer", {{"device", "cpu"}, {"pin_memory", false}}}}}}, "W:D07"},
      }));
  INFO(name);
  LintSubject s = subject(gpus, model);
  change(s);
  const LintResult result = linted(good(patch), s);
  INFO(lint_text(result, "ds.json", s));
  CHECK(rules(result) == expected);
}

TEST_CASE("every fault DeepSpeed would refuse is found, not only the first", "[io]") {
  const LintResult result = linted(good({{"fp16", {{"enabled", true}}},
                                         {"train_batch_size", 9},
                                         {"zero_optimization", {{"legacy_stage1", true}, {"overlap_com", true}}}}));
  CHECK(result.count(Finding::Level::Error) == 4);
  REQUIRE(result.config);
  CHECK(result.config->config.zero.stage == 3);
}

TEST_CASE("without the Trainer every auto is an error", "[io]") {
  LintSubject s = subject();
  const json config = good({{"train_micro_batch_size_per_gpu", "auto"}});
  CHECK(rules(linted(config, s)).empty());
  s.trainer = false;
  CHECK(rules(linted(config, s)) == "E:C05");
}

TEST_CASE("numbers that differ from the Trainer's are found", "[io]") {
  LintSubject s = subject();
  s.micro_batch = 4;
  CHECK(rules(linted(good(), s)) == "E:A05");
  s.micro_batch = 1;
  s.run.ds.precision = Precision::Fp16;
  s.precision_said = true;
  CHECK(rules(linted(good(), s)) == "E:B02 W:B06");  // what is left without bf16 is fp32
}

TEST_CASE("a finding says place, value, reason, fix, patch and bytes", "[io]") {
  const LintResult result = linted(good(zero({{"sub_group_size", 2000000000}})));
  REQUIRE(result.findings.size() == 1);
  // 6 bytes an element of the part: ceil of each tensor over 8 ranks
  CHECK(lint_text(result, "ds.json", subject()) ==
        "ds.json for Qwen3-8B on 8xA100-80G, DeepSpeed 0.19.8: 0 errors, 1 warning, 0 remarks\n\n"
        "warning C13  ds.json:/zero_optimization/sub_group_size = 2000000000\n"
        "             As large as all parameters of a rank: the step casts their gradients all at once. (5.7 GiB)\n"
        "             fix: 1e8 makes the step's peak small\n");
  const json found = json::parse(lint_json(result, "ds.json", subject()));
  CHECK(found.at("schema") == "zplan.check/1");
  CHECK(found.at("accepted") == true);
  CHECK(found.at("findings").at(0).at("patch") == json::parse(R"({"zero_optimization": {"sub_group_size": 100000000}})"));
  CHECK(found.at("findings").at(0).at("bytes") == 6 * 8190735360 / 8);
  CHECK(found.at("findings").at(0).at("value") == 2000000000);
}

TEST_CASE("what is not a ds_config at all is an input error", "[io]") {
  CHECK(error_text([] { lint("[1]", "ds.json", subject()); }) ==
        "ds.json: expected an object, found a list\n  fix: write it as { \"key\": value, ... }");
  CHECK(error_text([] { lint("{\"a\": ", "ds.json", subject()); }) ==
        "ds.json: the JSON text ends too early, at line 1, column 7\n"
        "  fix: the file looks cut off: copy or download it again");
}
