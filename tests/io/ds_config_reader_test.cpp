#include "io/ds_config_reader.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;
using nlohmann::json;

namespace {

DsContext context(const char* deepspeed = "0.19.8", std::int64_t world = 4) {
  DsContext c;
  c.world_size = world;
  c.versions.deepspeed = parse_version(deepspeed, "test");
  c.versions.switches = deepspeed_switches(c.versions.deepspeed);
  return c;
}

// Micro-batch 1 in bf16, and what the text adds: members of the config, and of its zero section.
std::string config(const std::string& zero, const std::string& top = "") {
  return R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {)" + zero + "}" +
         (top.empty() ? "" : ", " + top) + "}";
}

DsConfigFile read(const std::string& text, const DsContext& c = context()) { return read_ds_config(text, "ds.json", c); }

std::vector<std::string> codes(const DsConfigFile& file) {
  std::vector<std::string> list;
  for (const Note& note : file.notes) list.push_back(note.code);
  return list;
}

}  // namespace

TEST_CASE("what a ds_config leaves out is DeepSpeed's default", "[io]") {
  const DsConfig ds = read(config(R"("stage": 3)")).config;
  ZeroConfig expected;
  expected.stage = 3;
  expected.overlap_comm = true;  // in stage 3 only
  CHECK(ds.zero == expected);
  CHECK(ds.zero.reduce_bucket_size == 500'000'000);
  CHECK(ds.zero.stage3_prefetch_bucket_size == 50'000'000);
  CHECK(ds.gradient_accumulation_steps == 1);
  CHECK(ds.gradient_clipping == 1.0);
  CHECK(ds.precision == Precision::Bf16);
  CHECK(ds.bf16_check_grad_overflow);
  CHECK_FALSE(read(config(R"("stage": 2)")).config.zero.overlap_comm);
  CHECK(read(R"({"train_micro_batch_size_per_gpu": 1})").config.precision == Precision::Fp32);
}

TEST_CASE("defaults that changed between DeepSpeed's versions", "[io]") {
  struct Expected {
    double clipping;
    bool pinned, overflow_check, immediate;
    Precision stage0_accumulation;
  };
  const auto [version, expected] = GENERATE(table<const char*, Expected>({
      {"0.16.9", {0.0, false, false, true, Precision::Fp32}},
      {"0.19.3", {1.0, false, true, false, Precision::Bf16}},
      {"0.19.6", {1.0, true, true, false, Precision::Bf16}},
      {"0.19.8", {1.0, true, true, false, Precision::Bf16}},
  }));
  INFO(version);
  const DsConfig ds = read(config(R"("stage": 0, "offload_optimizer": {"device": "cpu"})"), context(version)).config;
  CHECK(ds.gradient_clipping == expected.clipping);
  CHECK(ds.zero.offload_optimizer.pin_memory == expected.pinned);
  CHECK(ds.bf16_check_grad_overflow == expected.overflow_check);
  CHECK(ds.bf16_immediate_grad_update == expected.immediate);
  CHECK(ds.accumulation_dtype() == expected.stage0_accumulation);
}

TEST_CASE("aliases, deprecated keys and coercions give the same config", "[io]") {
  const auto [name, zero, same] = GENERATE(table<const char*, const char*, const char*>({
      {"bare field names", R"("stage": 3, "max_live_parameters": 7, "prefetch_bucket_size": 8)",
       R"("stage": 3, "stage3_max_live_parameters": 7, "stage3_prefetch_bucket_size": 8)"},
      {"integral floats", R"("stage": 2, "reduce_bucket_size": 5e7, "allgather_bucket_size": 200000000.0)",
       R"("stage": 2, "reduce_bucket_size": 50000000, "allgather_bucket_size": 200000000)"},
      {"cpu_offload", R"("stage": 2, "cpu_offload": true)", R"("stage": 2, "offload_optimizer": {"device": "cpu"})"},
      {"cpu_offload false", R"("stage": 2, "cpu_offload": false)", R"("stage": 2)"},
      {"cpu_offload_param", R"("stage": 3, "cpu_offload_param": true)", R"("stage": 3, "offload_param": {"device": "cpu"})"},
      {"cpu_offload_use_pin_memory has no effect", R"("stage": 2, "cpu_offload_use_pin_memory": false)", R"("stage": 2)"},
      {"fp16 weights at save", R"("stage": 3, "stage3_gather_fp16_weights_on_model_save": true)",
       R"("stage": 3, "stage3_gather_16bit_weights_on_model_save": true)"},
      {"overlap_comm null", R"("stage": 3, "overlap_comm": null)", R"("stage": 3)"},
      {"pydantic's booleans and digits", R"("stage": "2", "reduce_scatter": 0, "contiguous_gradients": "no")",
       R"("stage": 2, "reduce_scatter": false, "contiguous_gradients": false)"},
      {"offload to none", R"("stage": 3, "offload_param": {"device": "none"}, "offload_optimizer": null)", R"("stage": 3)"},
  }));
  INFO(name);
  CHECK(read(config(zero)).config == read(config(same)).config);
}

TEST_CASE("sections beside zero_optimization", "[io]") {
  CHECK(read(R"({"train_micro_batch_size_per_gpu": 1, "bfloat16": {"enabled": true}})").config.precision == Precision::Bf16);
  CHECK(read(R"({"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": true}})").config.precision == Precision::Fp16);
  CHECK(read(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": true})").config.zero.stage == 1);
  CHECK(read(config(R"("stage": 2)", R"("data_types": {"grad_accum_dtype": "float32"})")).config.grad_accum_dtype == Precision::Fp32);
  CHECK(read(config(R"("stage": 2)", R"("communication_data_type": "FP32")")).config.communication_data_type == Precision::Fp32);
  CHECK(read(config("", R"("optimizer": {"type": "AdamW", "params": {"torch_adam": true}})")).torch_adam);
  CHECK(read("// why\n{\"train_micro_batch_size_per_gpu\": 1 /* hjson */}").config.train_micro_batch_size_per_gpu == 1);
}

TEST_CASE("two of the three batch sizes give the third", "[io]") {
  const auto [name, text, micro, accum] = GENERATE(table<const char*, const char*, std::int64_t, std::int64_t>({
      {"micro", R"({"train_micro_batch_size_per_gpu": 3})", 3, 1},
      {"micro and accumulation", R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 5})", 3, 5},
      {"train and micro", R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3})", 3, 2},
      {"train and accumulation", R"({"train_batch_size": 24, "gradient_accumulation_steps": 2})", 3, 2},
      {"train", R"({"train_batch_size": 24})", 6, 1},
      {"all", R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3})", 2, 3},
  }));
  INFO(name);
  const DsConfig ds = read(text).config;
  CHECK(ds.train_micro_batch_size_per_gpu == micro);
  CHECK(ds.gradient_accumulation_steps == accum);
}

TEST_CASE("what DeepSpeed refuses is refused, at the key", "[io]") {
  const auto [name, text, error] = GENERATE(table<const char*, std::string, const char*>({
      {"no batch size", R"({"gradient_accumulation_steps": 2})",
       "/train_micro_batch_size_per_gpu: neither it nor train_batch_size is given\n"
       "  fix: add \"train_micro_batch_size_per_gpu\""},
      {"negative micro-batch", R"({"train_micro_batch_size_per_gpu": -1})",
       "/train_micro_batch_size_per_gpu: -1 is not a positive number\n  fix: write 1 or more"},
      {"batch sizes that do not multiply", R"({"train_batch_size": 10, "train_micro_batch_size_per_gpu": 3})",
       "/train_batch_size: 10 is not micro-batch 3 x accumulation 0 x 4 ranks\n"
       "  fix: remove train_batch_size, or choose a multiple of the ranks and the micro-batch"},
      {"auto", config(R"("stage": 3, "reduce_bucket_size": "auto")"),
       "/zero_optimization/reduce_bucket_size: \"auto\" is not resolved: only the Hugging Face Trainer and accelerate do "
       "that\n  fix: write the value"},
      {"unknown key", config(R"("stage": 3, "stage3_max_live_paramters": 1)"),
       "/zero_optimization/stage3_max_live_paramters: unknown key\n"
       "  fix: did you mean stage3_max_live_parameters or max_live_parameters?"},
      {"both names", config(R"("stage": 3, "stage3_max_live_parameters": 1, "max_live_parameters": 1)"),
       "/zero_optimization/max_live_parameters: the same field as stage3_max_live_parameters, given under both names\n"
       "  fix: keep one of the two"},
      {"old and new", config(R"("stage": 2, "cpu_offload": true, "offload_optimizer": {"device": "cpu"})"),
       "/zero_optimization/cpu_offload: stands beside offload_optimizer, which replaces it\n  fix: remove cpu_offload"},
      {"stage", config(R"("stage": 4)"),
       "/zero_optimization/stage: 4 is not a ZeRO stage\n  fix: write 0, 1, 2 or 3"},
      {"no bucket", config(R"("stage": 2, "reduce_bucket_size": 0)"),
       "/zero_optimization/reduce_bucket_size: expected an integer of 1 or more, found 0\n"
       "  fix: write an integer of 1 or more"},
      {"half an element", config(R"("stage": 2, "reduce_bucket_size": 2.5)"),
       "/zero_optimization/reduce_bucket_size: expected an integer of 1 or more, found 2.5\n"
       "  fix: write an integer of 1 or more"},
      {"odd bucket", config(R"("stage": 2, "allgather_bucket_size": 7)"),
       "/zero_optimization/allgather_bucket_size: 7 is odd, which DeepSpeed refuses\n  fix: write an even number"},
      {"device", config(R"("stage": 2, "offload_optimizer": {"device": "CPU"})"),
       "/zero_optimization/offload_optimizer/device: 'CPU' is not an offload device\n  fix: write none, cpu or nvme"},
      {"buffer of the parameters under the optimizer", config(R"("stage": 3, "offload_optimizer": {"device": "cpu", "buffer_size": 1})"),
       "/zero_optimization/offload_optimizer/buffer_size: unknown key\n  fix: remove it"},
      {"nvme without a path", config(R"("stage": 3, "offload_param": {"device": "nvme"})"),
       "/zero_optimization/offload_param/nvme_path: offloading to nvme needs a path\n  fix: add \"nvme_path\""},
      {"ratio", config(R"("stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5})"),
       "/zero_optimization/offload_optimizer/ratio: a part of the optimizer can be offloaded in stage 3 only\n"
       "  fix: use stage 3, or remove ratio"},
      {"MiCS", config(R"("stage": 3, "mics_shard_size": -1)"),
       "/zero_optimization/mics_shard_size: DeepSpeed 0.19.8 removed it and refuses the key, whatever its value\n"
       "  fix: remove the key"},
      {"amp", config(R"("stage": 0)", R"("amp": {"enabled": false})"),
       "/amp: DeepSpeed 0.19.8 removed it and refuses the key, whatever its value\n  fix: remove the key"},
      {"old stage 1", config(R"("stage": 1, "legacy_stage1": true)"),
       "/zero_optimization/legacy_stage1: DeepSpeed refuses the old stage 1\n  fix: remove the key"},
      {"two precisions", config(R"("stage": 2)", R"("fp16": {"enabled": true})"),
       "/fp16: fp16 and bf16 are both enabled\n  fix: enable one of them"},
      {"accumulation without ZeRO", config(R"("stage": 0)", R"("data_types": {"grad_accum_dtype": "fp32"})"),
       "/data_types/grad_accum_dtype: without ZeRO gradients of a bf16 run are accumulated in bf16\n"
       "  fix: remove it, or use a ZeRO stage"},
      {"states without master", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2},
                                    "bf16": {"enabled": true, "bf16_optimizer_states": true}})",
       "/bf16/bf16_optimizer_states: needs bf16_master_weights_and_grads\n  fix: set both, or neither"},
      {"communication type", config(R"("stage": 2)", R"("communication_data_type": "int8")"),
       "/communication_data_type: 'int8' is not a type\n  fix: write fp32, fp16 or bf16"},
      {"sum in stage 3", config(R"("stage": 3)", R"("gradient_allreduce_op": "sum")"),
       "/gradient_allreduce_op: sum does not work with stage 3\n  fix: write mean"},
      {"prescale", config(R"("stage": 2)", R"("prescale_gradients": true)"),
       "/prescale_gradients: does not work with reduce_scatter in stages 2 and 3\n  fix: remove it"},
      {"clipping in the optimizer", config(R"("stage": 2)", R"("optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1}})"),
       "/optimizer/params/max_grad_norm: DeepSpeed refuses it among the optimizer's parameters\n"
       "  fix: use \"gradient_clipping\" at the top level"},
      {"untested optimizer", config(R"("stage": 2)", R"("optimizer": {"type": "Lamb"})"),
       "/optimizer/type: 'lamb' is not tested with ZeRO, which refuses it\n"
       "  fix: use AdamW, or add \"zero_allow_untested_optimizer\": true"},
      {"hpZ", config(R"("stage": 3, "zero_hpz_partition_size": 3)"),
       "/zero_optimization/zero_hpz_partition_size: 3 does not divide 4 ranks\n  fix: use the number of GPUs of a node"},
  }));
  INFO(name);
  std::string whole = "ds.json:";
  whole += error;
  CHECK(error_text([text = text] { read(text); }) == whole);
}

TEST_CASE("a ds_config that is no object is refused", "[io]") {
  CHECK(error_text([] { read("[]"); }) ==
        "ds.json: expected an object, found a list\n  fix: write it as { \"key\": value, ... }");
}

TEST_CASE("keys that one version knows and another does not", "[io]") {
  const auto [version, zero, accepted] = GENERATE(table<const char*, const char*, bool>({
      {"0.16.9", R"("stage": 3, "stage3_allgather_sequential": true)", false},
      {"0.19.6", R"("stage": 3, "stage3_allgather_sequential": true)", true},
      {"0.19.6", R"("stage": 2, "compute_grad_norm": true)", false},
      {"0.19.8", R"("stage": 2, "compute_grad_norm": true)", true},
      {"0.19.6", R"("stage": 3, "mics_shard_size": -1)", true},
      {"0.16.9", R"("stage": 2, "reduce_bucket_size": 0)", true},
      {"0.16.9", R"("stage": 2, "offload_optimizer": {"super_offload": false})", false},
  }));
  INFO(version << " " << zero);
  const std::string error = error_text([version = version, zero = zero] { read(config(zero), context(version)); });
  CHECK((error == "no error") == accepted);
}

TEST_CASE("keys without the effect one expects are remarked upon", "[io]") {
  using Codes = std::vector<std::string>;
  const auto [name, text, expected] = GENERATE(table<const char*, std::string, Codes>({
      {"nothing remarkable", config(R"("stage": 3, "stage3_max_live_parameters": 1000000000)"), Codes{}},
      {"offload_param below stage 3", config(R"("stage": 2, "offload_param": {"device": "cpu"})"), Codes{"offload-param-ignored"}},
      {"nvme in stage 2", config(R"("stage": 2, "offload_optimizer": {"device": "nvme"})"), Codes{"nvme-means-cpu"}},
      {"offload without ZeRO", config(R"("stage": 0, "offload_optimizer": {"device": "cpu"})"), Codes{"offload-optimizer-ignored"}},
      {"stage-3 keys in stage 2", config(R"("stage": 2, "stage3_max_live_parameters": 1)"), Codes{"stage3-key-ignored"}},
      {"stage-2 keys in stage 3", config(R"("stage": 3, "round_robin_gradients": true)"), Codes{"stage12-key-ignored"}},
      {"parameters stay pinned", config(R"("stage": 3, "offload_param": {"device": "cpu", "pin_memory": false})"), Codes{"param-still-pinned"}},
      {"allgather_partitions", config(R"("stage": 2, "allgather_partitions": true)"), Codes{"key-ignored"}},
      {"checkpointing section", config(R"("stage": 2)", R"("activation_checkpointing": {"partition_activations": true})"), Codes{"activation-checkpointing-ignored"}},
      {"deprecated", config(R"("stage": 2, "cpu_offload": true)"), Codes{"deprecated-key"}},
      {"misspelt at the top", config(R"("stage": 2)", R"("gradient_clip": 1.0)"), Codes{"unknown-key"}},
      {"only train_batch_size", R"({"train_batch_size": 64})", Codes{"micro-batch-from-train-batch"}},
      {"not simulated", config(R"("stage": 2)", R"("tensor_parallel": {"autotp_size": 2})"), Codes{"not-simulated"}},
  }));
  INFO(name);
  CHECK(codes(read(text)) == expected);
}

TEST_CASE("a misspelt top-level key is told with its neighbour", "[io]") {
  const auto file = read(config(R"("stage": 2)", R"("gradient_acumulation_steps": 8)"));
  REQUIRE(file.notes.size() == 1);
  CHECK(file.notes[0].text == "DeepSpeed does not know the key gradient_acumulation_steps and ignores it.");
  CHECK(file.notes[0].fix == "did you mean gradient_accumulation_steps?");
  CHECK(file.config.gradient_accumulation_steps == 1);
}

TEST_CASE("auto is filled as transformers 5.17 fills it", "[io]") {
  struct Expected {
    std::int64_t reduce, prefetch, persistence;
  };
  // int(0.9 * h * h) in Python: 0.9 * 2560 * 2560 is 5898240.0, 0.9 * 1536 * 1536 is 2123366.4000000004
  const auto [hidden, expected] = GENERATE(table<std::int64_t, Expected>({
      {4096, {16'777'216, 15'099'494, 40'960}},
      {2560, {6'553'600, 5'898'240, 25'600}},
      {1536, {2'359'296, 2'123'366, 15'360}},
  }));
  DsContext c = context();
  c.hf = HfArguments{};
  c.hf->hidden_size = hidden;
  c.hf->micro_batch = 2, c.hf->grad_accum = 8;
  const std::string text = R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto", "loss_scale": 0}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                          "stage3_param_persistence_threshold": "auto"}})";
  const DsConfigFile file = read(text, c);
  CHECK(file.config.train_micro_batch_size_per_gpu == 2);
  CHECK(file.config.gradient_accumulation_steps == 8);
  CHECK(file.config.precision == Precision::Bf16);
  CHECK(file.config.zero.reduce_bucket_size == expected.reduce);
  CHECK(file.config.zero.stage3_prefetch_bucket_size == expected.prefetch);
  CHECK(file.config.zero.stage3_param_persistence_threshold == expected.persistence);
  CHECK(file.notes.empty());
}

TEST_CASE("an auto the Trainer does not fill takes DeepSpeed's default, and is remarked upon", "[io]") {
  DsContext c = context();
  c.hf = HfArguments{};
  c.hf->hidden_size = 4096;
  const DsConfigFile file = read(config(R"("stage": 3, "stage3_max_live_parameters": "auto")"), c);
  CHECK(file.config.zero.stage3_max_live_parameters == 1'000'000'000);
  REQUIRE(codes(file) == std::vector<std::string>{"auto-not-filled"});
  // The two keys of stage 3 stay "auto" below it, where nobody looks at them.
  CHECK(codes(read(config(R"("stage": 2, "stage3_prefetch_bucket_size": "auto")"), c)) ==
        std::vector<std::string>{"stage3-key-ignored"});
}

TEST_CASE("numbers that differ from the Trainer's arguments are refused, as it refuses them", "[io]") {
  DsContext c = context();
  c.hf = HfArguments{};
  c.hf->hidden_size = 4096;
  c.hf->micro_batch = 2;
  c.hf->precision = Precision::Fp16;
  CHECK(error_text([&] { read(config(R"("stage": 2)"), c); }) ==
        "ds.json:/train_micro_batch_size_per_gpu: 1 in the file, but 2 asked for\n"
        "  fix: write \"auto\" in the file, or leave out --micro-batch");
  c.hf->micro_batch = 1;
  CHECK(error_text([&] { read(config(R"("stage": 2)"), c); }) ==
        "ds.json:/bf16/enabled: true in the file, but false asked for\n"
        "  fix: write \"auto\" in the file, or leave out --precision");
  c.hf->precision = Precision::Bf16;
  CHECK(read(config(R"("stage": 2)", R"("gradient_clipping": 0.5)"), c).config.gradient_clipping == 0.5);  // not said
  c.hf->max_grad_norm = 1.0;
  CHECK(error_text([&] { read(config(R"("stage": 2)", R"("gradient_clipping": 0.5)"), c); }) ==
        "ds.json:/gradient_clipping: 0.5 in the file, but 1.0 asked for\n"
        "  fix: write \"auto\" in the file, or leave out the Trainer's max_grad_norm");
}
