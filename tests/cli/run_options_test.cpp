#include "cli/run_options.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/io/catalog.h"

using namespace zplan;

namespace {

RunOptions asked(const char* gpus = "4xA100-40G") {
  RunOptions options;
  options.model = "qwen3-8b";
  options.gpus = gpus;
  return options;
}

RunInputs inputs(const RunOptions& options, Purpose purpose = Purpose::Plan, const FileSource& files = MapFiles()) {
  return run_inputs(options, purpose, catalog(), files);
}

const char* auto_config = R"({
  "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
  "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                        "stage3_param_persistence_threshold": "auto"}})";

std::string assumed(const RunInputs& in) {
  std::string text;
  for (const Assumption& a : in.assumptions) text += a.option + " " + a.value + "\n";
  return text;
}

}  // namespace

TEST_CASE("what is not said is assumed and listed with its option", "[cli]") {
  const RunInputs in = inputs(asked());
  CHECK(assumed(in) ==
        "--deepspeed 0.19.8\n--torch 2.11.0\n--transformers 5.17.0\n--seq-len 2048\n--finetune full\n--attention sdpa\n"
        "--global-batch 64\n--precision bf16\n--optimizer deepspeed-adamw\n");
  CHECK(in.run.world_size == 4);
  CHECK(in.run.workload.seq_len == 2048);
  CHECK(in.global_batch == 64);
  CHECK(in.run.versions == default_versions());
  CHECK(in.run.ds.precision == Precision::Bf16);
  CHECK(in.cluster.node.host_memory == GiB(340));
}

TEST_CASE("what is said is not assumed", "[cli]") {
  RunOptions o = asked();
  o.seq_len = 4096, o.global_batch = 32, o.precision = "fp16", o.finetune = "lora", o.lora_rank = 32;
  o.attention = "flash", o.optimizer = "torch-adamw-fused", o.deepspeed = "0.16.9", o.torch = "2.7.1", o.transformers = "4.57";
  o.host_ram = "1TiB";
  const RunInputs in = inputs(o);
  CHECK(assumed(in).empty());
  CHECK(in.run.workload.lora_rank == 32);
  CHECK(in.run.workload.parameter_groups == 2);  // the Trainer's decay / no-decay
  CHECK(in.run.versions.deepspeed == Version{0, 16, 9});
  CHECK_FALSE(in.run.versions.switches.bf16_overflow_check);
  CHECK(in.run.versions.transformers == Version{4, 57, 0});
  CHECK(in.cluster.node.host_memory == GiB(1024));
}

TEST_CASE("a version in short means the one that is known best", "[cli]") {
  RunOptions o = asked();
  o.deepspeed = "0.19", o.torch = "2.11", o.transformers = "5";
  CHECK(inputs(o).run.versions == default_versions());
  o.deepspeed = "0.19.6";
  CHECK(inputs(o).run.versions.deepspeed == Version{0, 19, 6});
}

TEST_CASE("a card without bf16 is planned in fp16, and told so", "[cli]") {
  const RunInputs in = inputs(asked("8xV100-32G"));
  CHECK(in.run.ds.precision == Precision::Fp16);
  CHECK(assumed(in).find("--precision fp16\n") != std::string::npos);
}

TEST_CASE("the batch is settled as far as it is said", "[cli]") {
  RunOptions o = asked("6xA100-40G");
  CHECK(inputs(o).global_batch == 66);  // 64 is no multiple of 6
  o.micro_batch = 2;
  o.global_batch = 48;
  CHECK(inputs(o).grad_accum == 4);
  o.global_batch.reset();
  o.grad_accum = 3;
  CHECK(inputs(o).global_batch == 36);
}

TEST_CASE("a ds_config with auto is resolved as the Trainer does", "[cli]") {
  RunOptions o = asked();
  o.ds_config = "ds.json";
  o.micro_batch = 2, o.grad_accum = 4;
  const RunInputs in = inputs(o, Purpose::Simulate, MapFiles{{"ds.json", auto_config}});
  CHECK(in.run.ds.train_micro_batch_size_per_gpu == 2);
  CHECK(in.run.ds.gradient_accumulation_steps == 4);
  CHECK(in.run.ds.precision == Precision::Bf16);
  CHECK(in.run.ds.zero.reduce_bucket_size == 16'777'216);
  CHECK(in.run.ds.zero.stage3_prefetch_bucket_size == 15'099'494);
  CHECK(in.run.ds.zero.stage3_param_persistence_threshold == 40'960);
  CHECK(in.run.workload.optimizer == OptimizerKind::DeepSpeedAdam);
  CHECK(in.run.workload.parameter_groups == 1);
}

TEST_CASE("without an optimizer in the ds_config it is the Trainer's, or CPUAdam where accelerate swaps it", "[cli]") {
  RunOptions o = asked();
  o.ds_config = "ds.json";
  const auto of = [&](const char* text) { return inputs(o, Purpose::Simulate, MapFiles{{"ds.json", text}}); };
  const RunInputs on_gpu =
      of(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  CHECK(on_gpu.run.workload.optimizer == OptimizerKind::TorchAdamFused);
  CHECK(on_gpu.run.workload.parameter_groups == 2);
  const RunInputs on_cpu = of(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                                  "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})");
  CHECK(on_cpu.run.workload.optimizer == OptimizerKind::DeepSpeedAdam);
  CHECK(on_cpu.notes.back().code == "optimizer-swapped");
}

TEST_CASE("--like takes every input from a record", "[cli]") {
  RunOptions o;
  o.like = ZPLAN_SOURCE_DIR "/tests/truth/runs.jsonl#a01";
  const RunInputs in = inputs(o, Purpose::Simulate, DiskFiles());
  REQUIRE(in.like);
  CHECK(in.like->id == "a01");
  CHECK(in.run == in.like->run);
  CHECK(in.cluster.world_size() == 2);
  CHECK(in.assumptions.empty());
}

TEST_CASE("options that cannot be meant are refused with the option, the fault and the way out", "[cli]") {
  using Change = void (*)(RunOptions&);
  const auto [name, change, error] = GENERATE(table<const char*, Change, const char*>({
      {"no model", [](RunOptions& o) { o.model.clear(); },
       "--model: no model is named\n  fix: add --model, such as --model qwen3-8b"},
      {"no GPUs", [](RunOptions& o) { o.gpus.clear(); },
       "--gpus: no GPUs are named\n  fix: add --gpus, such as --gpus 4xA100-40G"},
      {"unknown model", [](RunOptions& o) { o.model = "qwen3-8bb"; },
       "--model: unknown model 'qwen3-8bb'\n  fix: did you mean Qwen3-8B, Qwen3-14B or Qwen3-32B? `zplan models` lists "
       "those known by name; any other works by the path of its config.json"},
      {"unknown GPU", [](RunOptions& o) { o.gpus = "4xA10O"; },
       "--gpus: unknown GPU 'A10O'\n  fix: did you mean A10, A10G, A100-40G or A100-80G? `zplan gpus` lists those known "
       "by name; describe any other in a hardware file"},
      {"truncated config.json", [](RunOptions& o) { o.model = "cut/config.json"; },
       "cut/config.json: the JSON text ends too early, at line 2, column 18\n"
       "  fix: the file looks cut off: copy or download it again"},
      {"world size of 0", [](RunOptions& o) { o.gpus = "0xA100-40G"; },
       "--gpus: '0xA100-40G' is a world size of 0\n  fix: ask for at least one GPU"},
      {"negative micro-batch", [](RunOptions& o) { o.micro_batch = -2; },
       "--micro-batch: -2 is not a positive number\n  fix: write 1 or more"},
      {"no sequence", [](RunOptions& o) { o.seq_len = 0; },
       "--seq-len: 0 is not a positive number\n  fix: write 1 or more"},
      {"global batch the ranks do not divide", [](RunOptions& o) { o.global_batch = 30; },
       "--global-batch: 30 cannot be divided among 4 ranks\n  fix: use a multiple of 4, such as 28 or 32"},
      {"global batch below the ranks", [](RunOptions& o) { o.global_batch = 3; },
       "--global-batch: 3 cannot be divided among 4 ranks\n  fix: use a multiple of 4, such as 4"},
      {"global batch and micro-batch", [](RunOptions& o) { o.global_batch = 64, o.micro_batch = 3; },
       "--global-batch: 64 cannot be divided among 4 ranks with the micro-batch or accumulation asked for\n"
       "  fix: use a multiple of 12, such as 60 or 72"},
      {"three that do not agree", [](RunOptions& o) { o.global_batch = 64, o.micro_batch = 2, o.grad_accum = 2; },
       "--global-batch: 64 is not micro-batch 2 x accumulation 2 x 4 ranks\n"
       "  fix: leave one of the three out, or use --global-batch 16"},
      {"precision", [](RunOptions& o) { o.precision = "fp8"; },
       "--precision: 'fp8' is none of the choices\n  fix: write bf16, fp16 or fp32"},
      {"bf16 where there is none", [](RunOptions& o) { o.gpus = "8xV100-32G", o.precision = "bf16"; },
       "--precision: the Tesla V100-SXM2-32GB does not do bf16\n  fix: use fp16"},
      {"flash in fp32", [](RunOptions& o) { o.attention = "flash", o.precision = "fp32"; },
       "--attention flash: FlashAttention takes bf16 and fp16 only\n  fix: use --attention sdpa, or 16 bits"},
      {"recompute", [](RunOptions& o) { o.recompute = "every-0"; },
       "--recompute: 'every-0' is none of the choices\n  fix: write none, full or every-N, such as every-2"},
      {"rank of nothing", [](RunOptions& o) { o.lora_rank = 8; },
       "--lora-rank: there are no adapters in --finetune full\n  fix: add --finetune lora or qlora"},
      {"nothing frozen", [](RunOptions& o) { o.finetune = "freeze"; },
       "--finetune freeze: how many layers are frozen is not said\n  fix: add --freeze-layers N"},
      {"more than all frozen", [](RunOptions& o) { o.finetune = "freeze", o.freeze_layers = 37; },
       "--freeze-layers: 37 of 36 layers\n  fix: freeze at most all of them"},
      {"decimal memory", [](RunOptions& o) { o.host_ram = "512GB"; },
       "--host-ram: '512GB' is not a size\n  fix: write it in GiB (2^30 bytes), such as 39GiB or 37.5GiB"},
      {"version", [](RunOptions& o) { o.deepspeed = "new"; },
       "--deepspeed: 'new' is not a version\n  fix: write it as 0.19.8 or 2.11"},
      {"rank beyond the world", [](RunOptions& o) { o.rank = "4"; },
       "--rank: '4' is not a rank of 4\n  fix: write 0 to 3, or all"},
      {"record and model", [](RunOptions& o) { o.like = "r.json"; },
       "--like: takes every input from the record\n  fix: leave out --model, --gpus and --ds-config"},
  }));
  INFO(name);
  RunOptions options = asked();
  change(options);
  const MapFiles files{{"cut/config.json", "{\"model_type\": \"qwen3\",\n \"hidden_size\": 4"}};
  CHECK(error_text([&] { inputs(options, Purpose::Plan, files); }) == error);
}

TEST_CASE("a ds_config that does not go with the options is refused", "[cli]") {
  const auto [name, text, error] = GENERATE(table<const char*, const char*, const char*>({
      {"no ds_config", nullptr, "--ds-config: no configuration is given\n  fix: add --ds-config FILE, or --like RECORD"},
      {"auto that nobody fills", R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto"})",
       "ds.json:/gradient_accumulation_steps: \"auto\" is filled in from the Trainer's arguments, which do not say it\n"
       "  fix: give --grad-accum"},
      {"micro-batch differs", R"({"train_micro_batch_size_per_gpu": 1})",
       "ds.json:/train_micro_batch_size_per_gpu: 1 in the file, but 2 asked for\n"
       "  fix: write \"auto\" in the file, or leave out --micro-batch"},
      {"optimizer not simulated", R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
                                      "optimizer": {"type": "Lion"}})",
       "ds.json:/optimizer/type: 'lion' is not simulated\n  fix: use AdamW"},
  }));
  INFO(name);
  RunOptions options = asked();
  options.micro_batch = 2;
  if (text != nullptr) options.ds_config = "ds.json";
  const MapFiles files{{"ds.json", text == nullptr ? "" : text}};
  CHECK(error_text([&] { inputs(options, Purpose::Simulate, files); }) == error);
}
