#include "io/ds_config_reader.h"

#include <nlohmann/json.hpp>

#include "io/ds_auto.h"
#include "io/ds_config_rules.h"
#include "io/ds_precision_reader.h"
#include "io/ds_zero_reader.h"
#include "io/json.h"
#include "io/lower_case.h"
#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

// Top-level keys that DeepSpeed looks up and that change no byte and no second simulated here.
constexpr const char* harmless_keys[] = {
    "steps_per_print", "dump_state", "disable_python_gc", "disable_allgather", "seq_parallel_communication_data_type",
    "scheduler", "flops_profiler", "wall_clock_breakdown", "memory_breakdown", "autotuning",
    "use_data_before_expert_parallelism", "checkpoint", "dataloader_drop_last", "log_level", "aio", "comms_logger",
    "tensorboard", "wandb", "csv_monitor", "comet", "timers", "vocabulary_size", "data_efficiency",
    "zero_allow_untested_optimizer", "activation_checkpointing", "datastates_ckpt", "train_batch_size",
    "zero_optimization", "optimizer", "data_types", "gradient_allreduce_op", "prescale_gradients",
    "gradient_predivide_factor"};
// Top-level keys of features whose memory is not simulated.
constexpr const char* unsimulated_keys[] = {"pipeline", "tensor_parallel", "expert_parallel", "hybrid_engine", "compile",
                                            "weight_quantization", "sequence_parallel_size"};
// runtime/config.py:_REMOVED_TOP_LEVEL_CONFIG_KEYS of 0.19.8
constexpr const char* removed_keys[] = {"nebula", "compression_training", "amp", "quantize_training", "sparse_gradients",
                                        "eigenvalue", "sparse_attention", "elasticity", "graph_harvesting",
                                        "curriculum_learning", "progressive_layer_drop"};

void collect(const json& value, const std::string& pointer, std::set<std::string>& given) {
  if (!value.is_object()) return;
  for (const auto& [key, item] : value.items()) {
    given.insert(pointer + "/" + pointer_token(key));
    collect(item, pointer + "/" + pointer_token(key), given);
  }
}

std::int64_t positive(const JsonObject& root, const char* key) {
  const std::int64_t n = root.integer(key);
  if (n > 0) return n;
  root.fail(key, std::to_string(n) + " is not a positive number", "write 1 or more");
}

// runtime/config.py:_set_batch_related_parameters and _batch_assertion
void read_batch(const JsonObject& root, std::int64_t world, DsConfig& config, std::vector<Note>& notes) {
  const char *train = "train_batch_size", *micro = "train_micro_batch_size_per_gpu", *accum = "gradient_accumulation_steps";
  const bool has_train = root.has(train), has_micro = root.has(micro), has_accum = root.has(accum);
  if (!has_train && !has_micro) {
    root.fail(micro, "neither it nor train_batch_size is given", "add \"train_micro_batch_size_per_gpu\"");
  }
  const std::int64_t whole = has_train ? positive(root, train) : 0;
  if (has_micro) config.train_micro_batch_size_per_gpu = positive(root, micro);
  if (has_accum) config.gradient_accumulation_steps = positive(root, accum);
  if (!has_train) return;
  if (has_micro && !has_accum) {
    config.gradient_accumulation_steps = whole / config.train_micro_batch_size_per_gpu / world;
  } else if (!has_micro) {
    config.train_micro_batch_size_per_gpu = whole / world / config.gradient_accumulation_steps;
    if (!has_accum) {
      notes.push_back({Note::Level::Warning, "micro-batch-from-train-batch",
                       "Only train_batch_size is given: the micro-batch becomes the whole share of a rank, " +
                           std::to_string(config.train_micro_batch_size_per_gpu) + ".",
                       "add train_micro_batch_size_per_gpu"});
    }
  }
  const std::int64_t product = config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * world;
  if (product != whole) {
    root.fail(train,
              std::to_string(whole) + " is not micro-batch " + std::to_string(config.train_micro_batch_size_per_gpu) +
                  " x accumulation " + std::to_string(config.gradient_accumulation_steps) + " x " +
                  std::to_string(world) + " ranks",
              "remove train_batch_size, or choose a multiple of the ranks and the micro-batch");
  }
}

void read_optimizer(const JsonObject& root, DsConfigFile& read) {
  if (!root.has("optimizer")) return;
  const JsonObject optimizer = root.object("optimizer");
  if (!optimizer.has("type")) return;  // runtime/config.py:get_optimizer_name
  read.optimizer_type = lower_case(optimizer.text("type"));
  if (optimizer.has("params")) read.torch_adam = optimizer.object("params").flag_or("torch_adam", false);
}

void read_top_level(const JsonObject& root, const Versions& versions, DsConfigFile& read) {
  for (const char* key : removed_keys) {
    if (!root.given(key)) continue;
    if (versions.switches.config_keys_removed_0_19_8) {
      root.fail(key, "DeepSpeed 0.19.8 removed it and refuses the key, whatever its value", "remove the key");
    }
  }
  read.config.gradient_clipping = root.number_or("gradient_clipping", versions.switches.gradient_clipping_default);
  read.config.zero_force_ds_cpu_optimizer = root.flag_or("zero_force_ds_cpu_optimizer", true);
  if (!root.flag_or("managed_gradient_accumulation", true)) {
    read.notes.push_back({Note::Level::Warning, "not-simulated",
                          "managed_gradient_accumulation: false is not simulated: the figures are without it.", ""});
  }
  for (const char* key : harmless_keys) root.ignore(key);
  for (const char* key : unsimulated_keys) {
    if (root.has(key)) {
      read.notes.push_back({Note::Level::Warning, "not-simulated",
                            std::string(key) + " is not simulated: the figures are without it.", ""});
    }
  }
}

// DeepSpeed looks its keys up and passes over all others, so a misspelt one has no effect and no message.
void note_unknown(const JsonObject& root, std::vector<Note>& notes) {
  for (const std::string& key : root.unread()) {
    const auto near = nearest(key, {root.known().begin(), root.known().end()});
    notes.push_back({Note::Level::Warning, "unknown-key", "DeepSpeed does not know the key " + key + " and ignores it.",
                     near.empty() ? "remove it" : "did you mean " + one_of(near) + "?"});
  }
}

}  // namespace

DsConfigFile read_ds_config(const json& given, const std::string& where, const DsContext& context) {
  DsConfigFile read;
  const JsonObject as_given(given, where);  // refuses what is not an object
  collect(given, "", read.given);
  const json config = without_autos(given, where, context, read.notes);
  const JsonObject root(config, where);
  read_top_level(root, context.versions, read);
  read_batch(root, context.world_size, read.config, read.notes);
  read.config.zero = read_zero(root, context.versions, read.notes);
  read_optimizer(root, read);
  read_precision(root, context.versions, read.config, read.notes);
  refuse_combinations(root, context, read);
  const std::vector<Note> remarks = ignored_or_misleading(read);
  read.notes.insert(read.notes.end(), remarks.begin(), remarks.end());
  note_unknown(root, read.notes);
  return read;
}

DsConfigFile read_ds_config(const std::string& text, const std::string& file, const DsContext& context) {
  return read_ds_config(parse_json(text, file, Comments::Skipped), file, context);
}

}  // namespace zplan
