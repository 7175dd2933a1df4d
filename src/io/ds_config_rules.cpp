#include "io/ds_config_rules.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "io/suggest.h"

namespace zplan {
namespace {

bool given(const DsConfigFile& read, const std::string& pointer) { return read.given.count(pointer) > 0; }
bool given_in_zero(const DsConfigFile& read, const std::string& key) {
  return given(read, "/zero_optimization/" + key);
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* other) { return name == other; });
}

// runtime/engine.py:_configure_basic_optimizer, _do_optimizer_sanity_check
void refuse_optimizer(const JsonObject& root, const DsContext& context, const DsConfigFile& read) {
  if (read.optimizer_type.empty()) return;
  const JsonObject optimizer = root.object("optimizer");
  if (optimizer.has("params") && optimizer.object("params").has("max_grad_norm")) {
    optimizer.object("params").fail("max_grad_norm", "DeepSpeed refuses it among the optimizer's parameters",
                                    "use \"gradient_clipping\" at the top level");
  }
  const bool one_bit = is_one_of(read.optimizer_type, {"onebitadam", "zerooneadam", "onebitlamb"});
  if (one_bit && context.versions.switches.config_keys_removed_0_19_8) {
    optimizer.fail("type", "DeepSpeed 0.19.8 removed " + read.optimizer_type, "use AdamW");
  }
  if (one_bit && read.config.zero.stage > 0) {
    optimizer.fail("type", read.optimizer_type + " does not work with ZeRO", "use AdamW, or stage 0");
  }
  // utils.py:ZERO_SUPPORTED_OPTIMIZERS, by the names that make them
  const bool tested = is_one_of(read.optimizer_type, {"adam", "adamw", "adagrad", "lion", "muon"});
  if (read.config.zero.stage > 0 && !tested && !root.flag_or("zero_allow_untested_optimizer", false)) {
    optimizer.fail("type", "'" + read.optimizer_type + "' is not tested with ZeRO, which refuses it",
                   "use AdamW, or add \"zero_allow_untested_optimizer\": true");
  }
}

// runtime/zero/stage_1_and_2.py and stage3.py, __init__
void refuse_gradient_scaling(const JsonObject& root, const DsContext& context, const DsConfigFile& read) {
  const ZeroConfig& zero = read.config.zero;
  if (context.versions.deepspeed > Version{0, 16, 9}) {  // up to there nobody reads the key
    const std::string op = root.text_or("gradient_allreduce_op", "mean");
    if (op != "mean" && op != "sum") {
      root.fail("gradient_allreduce_op", "'" + op + "' is not an operation", "write mean or sum");
    }
    if (op == "sum" && zero.stage == 3) {
      root.fail("gradient_allreduce_op", "sum does not work with stage 3", "write mean");
    }
  }
  if (zero.stage < 2 || !zero.reduce_scatter) return;
  if (root.flag_or("prescale_gradients", false)) {
    root.fail("prescale_gradients", "does not work with reduce_scatter in stages 2 and 3", "remove it");
  }
  if (root.number_or("gradient_predivide_factor", 1) != 1) {
    root.fail("gradient_predivide_factor", "only 1 works with reduce_scatter in stages 2 and 3", "remove it");
  }
}

void refuse_zero(const JsonObject& root, const DsContext& context, const DsConfigFile& read) {
  const ZeroConfig& zero = read.config.zero;
  if (!root.has("zero_optimization") || !root.value("zero_optimization").is_object()) return;
  const JsonObject section = root.object("zero_optimization");
  if ((zero.stage == 1 || zero.stage == 2) && zero.allgather_bucket_size % 2 != 0) {
    section.fail("allgather_bucket_size", std::to_string(zero.allgather_bucket_size) + " is odd, which DeepSpeed refuses",
                 "write an even number");
  }
  if (zero.stage == 3 && zero.zero_quantized_gradients && !zero.reduce_scatter) {
    section.fail("zero_quantized_gradients", "needs reduce_scatter", "remove \"reduce_scatter\": false");
  }
  if (zero.stage == 3 && zero.zero_quantized_weights && read.config.torch_autocast) {
    section.fail("zero_quantized_weights", "does not work with torch_autocast", "use one of the two");
  }
  if (zero.stage == 3 && read.optimizer_type == "muon" && zero.reduce_scatter) {
    section.fail("reduce_scatter", "Muon in stage 3 needs it off", "write \"reduce_scatter\": false");
  }
  const std::int64_t hpz = zero.zero_hpz_partition_size;
  if (zero.stage == 3 && hpz > 1 && context.world_size % hpz != 0) {
    section.fail("zero_hpz_partition_size",
                 std::to_string(hpz) + " does not divide " + std::to_string(context.world_size) + " ranks",
                 "use the number of GPUs of a node");
  }
}

void warn(std::vector<Note>& notes, const std::string& code, const std::string& text, const std::string& fix) {
  notes.push_back({Note::Level::Warning, code, text, fix});
}

}  // namespace

void refuse_combinations(const JsonObject& root, const DsContext& context, const DsConfigFile& read) {
  if (root.has("amp") && read.config.zero.stage > 0) {
    root.fail("amp", "Apex amp does not work with ZeRO", "use bf16 or fp16");
  }
  refuse_optimizer(root, context, read);
  refuse_gradient_scaling(root, context, read);
  refuse_zero(root, context, read);
}

std::vector<Note> ignored_or_misleading(const DsConfigFile& read) {
  const ZeroConfig& zero = read.config.zero;
  std::vector<Note> notes;
  if (zero.stage < 3 && zero.offload_param.device != OffloadDevice::None) {
    warn(notes, "offload-param-ignored", "offload_param has no effect below stage 3.", "remove it, or use stage 3");
  }
  if ((zero.stage == 1 || zero.stage == 2) && zero.offload_optimizer.device == OffloadDevice::Nvme) {
    warn(notes, "nvme-means-cpu", "In stages 1 and 2 offload_optimizer.device nvme means cpu: nothing goes to disk.",
         "write cpu, or use stage 3");
  }
  if (zero.stage == 0 && zero.offload_optimizer.device != OffloadDevice::None) {
    warn(notes, "offload-optimizer-ignored", "offload_optimizer has no effect without ZeRO.",
         "remove it, or use a ZeRO stage");
  }
  if (zero.stage < 3) {
    std::vector<std::string> idle;
    for (const char* key : {"sub_group_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
                            "stage3_model_persistence_threshold", "stage3_max_live_parameters",
                            "stage3_max_reuse_distance", "stage3_module_granularity_threshold",
                            "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential",
                            "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_gradients"}) {
      if (given_in_zero(read, key)) idle.push_back(key);
    }
    if (!idle.empty()) {
      notes.push_back({Note::Level::Info, "stage3-key-ignored", "Without effect below stage 3: " + one_of(idle) + ".",
                       "remove them"});
    }
  } else {
    std::vector<std::string> idle;
    for (const char* key : {"round_robin_gradients", "use_multi_rank_bucket_allreduce", "allgather_bucket_size"}) {
      if (given_in_zero(read, key)) idle.push_back(key);
    }
    if (!idle.empty()) {
      notes.push_back({Note::Level::Info, "stage12-key-ignored", "Without effect in stage 3: " + one_of(idle) + ".",
                       "remove them"});
    }
    if (given(read, "/bf16/check_grad_overflow")) {
      notes.push_back({Note::Level::Info, "stage12-key-ignored", "bf16.check_grad_overflow has no effect in stage 3.",
                       "remove it"});
    }
    if (zero.offload_param.device == OffloadDevice::Cpu && !zero.offload_param.pin_memory) {
      warn(notes, "param-still-pinned", "The flat parameter buffer is pinned although offload_param.pin_memory is false.",
           "count it as pinned memory");
    }
  }
  if (given_in_zero(read, "allgather_partitions")) {
    notes.push_back({Note::Level::Info, "key-ignored", "allgather_partitions has no effect.", "remove it"});
  }
  if (zero.stage == 2 && read.config.grad_accum_dtype == Precision::Fp32 && read.config.precision != Precision::Fp32 &&
      !given(read, "/communication_data_type")) {
    notes.push_back({Note::Level::Info, "fp32-accumulation", "Gradients are summed in fp32 over the micro-steps, but "
                     "still reduced between the ranks in the model's type.", ""});
  }
  if (zero.stage == 1 && read.config.grad_accum_dtype == Precision::Fp32 &&
      (read.config.precision == Precision::Fp16 ||
       (read.config.precision == Precision::Bf16 && zero.offload_optimizer.device != OffloadDevice::None))) {
    warn(notes, "stage1-fp32-accumulation",
         "Stage 1 with fp32 accumulation outside BF16_Optimizer reads another tensor than the one it reduced.",
         "use stage 2, or leave out grad_accum_dtype");
  }
  if (read.config.zero.stage == 1 || zero.stage == 2) {
    if (!zero.contiguous_gradients && zero.offload_optimizer.device != OffloadDevice::None) {
      warn(notes, "contiguous-gradients-forced", "contiguous_gradients is forced on by optimizer offload.", "remove it");
    }
  }
  if (given(read, "/activation_checkpointing")) {
    warn(notes, "activation-checkpointing-ignored",
         "activation_checkpointing has no effect on a Hugging Face model: it checkpoints with torch's own.",
         "use gradient_checkpointing of the Trainer, here --recompute full");
  }
  return notes;
}

}  // namespace zplan
