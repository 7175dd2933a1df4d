#include "io/ds_auto.h"

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

bool is_auto(const json& value) { return value.is_string() && value.get<std::string>() == "auto"; }

// Places where "auto" is a value of its own, not one to be filled in.
bool auto_is_a_value(const std::string& pointer) {
  return pointer.rfind("/zero_optimization/zenflow/", 0) == 0 || pointer == "/data_types/keep_in_fp32_modules";
}

class Filler {
 public:
  Filler(json& config, const std::string& file, const HfArguments& hf) : config_(config), file_(file), hf_(hf) {}

  // HfTrainerDeepSpeedConfig.fill_match: "auto" takes the argument; another value must equal it.
  template <typename Value>
  void match(const char* pointer, const std::optional<Value>& argument, const char* option) {
    const json::json_pointer at(pointer);
    if (!config_.contains(at) || config_.at(at).is_null()) return;
    json& value = config_.at(at);
    if (is_auto(value)) {
      if (!argument) {
        throw InputError(place(file_, pointer), "\"auto\" is filled in from the Trainer's arguments, which do not say it",
                         std::string("give ") + option);
      }
      value = *argument;
    } else if (argument && value != json(*argument)) {
      throw InputError(place(file_, pointer), value.dump() + " in the file, but " + json(*argument).dump() + " asked for",
                       std::string("write \"auto\" in the file, or leave out ") + option);
    }
  }
  void fill(const char* pointer, const json& with) {
    const json::json_pointer at(pointer);
    if (config_.contains(at) && is_auto(config_.at(at))) config_.at(at) = with;
  }

  // trainer_config_process and trainer_config_finalize, in their order.
  void run(std::int64_t world_size) {
    match("/train_micro_batch_size_per_gpu", hf_.micro_batch, "--micro-batch");
    match("/gradient_accumulation_steps", hf_.grad_accum, "--grad-accum");
    std::optional<std::int64_t> global;
    if (hf_.micro_batch && hf_.grad_accum) global = *hf_.micro_batch * *hf_.grad_accum * world_size;
    match("/train_batch_size", global, "--micro-batch and --grad-accum");
    if (!hf_.max_grad_norm) fill("/gradient_clipping", 1.0);  // the Trainer's default
    match("/gradient_clipping", hf_.max_grad_norm, "the Trainer's max_grad_norm");
    precision("/bf16/enabled", Precision::Bf16);
    precision("/fp16/enabled", Precision::Fp16);
    const json stage = config_.value(json::json_pointer("/zero_optimization/stage"), json(0));
    fill("/zero_optimization/reduce_bucket_size", hf_reduce_bucket_size(hf_.hidden_size));
    if (stage == 3) {
      fill("/zero_optimization/stage3_prefetch_bucket_size", hf_prefetch_bucket_size(hf_.hidden_size));
      fill("/zero_optimization/stage3_param_persistence_threshold", hf_persistence_threshold(hf_.hidden_size));
    }
  }

 private:
  void precision(const char* pointer, Precision wanted) {
    if (hf_.precision) match(pointer, std::optional(*hf_.precision == wanted), "--precision");
    else fill(pointer, hf_.precision_if_auto == wanted);
  }

  json& config_;
  const std::string& file_;
  const HfArguments& hf_;
};

// Removes every "auto" that is left, telling of each.
void drop(json& value, const std::string& pointer, const std::string& file, bool hf, std::vector<Note>& notes) {
  if (!value.is_object()) return;
  for (auto item = value.begin(); item != value.end();) {
    const std::string at = pointer + "/" + pointer_token(item.key());
    if (!is_auto(*item) || auto_is_a_value(at)) {
      drop(*item, at, file, hf, notes);
      ++item;
      continue;
    }
    const bool trainers_own = at.rfind("/optimizer/", 0) == 0 || at.rfind("/scheduler/", 0) == 0;
    if (!hf) {
      throw InputError(place(file, at), "\"auto\" is not resolved: only the Hugging Face Trainer and accelerate do that",
                       "write the value");
    }
    const bool below_stage3 = at == "/zero_optimization/stage3_prefetch_bucket_size" ||
                              at == "/zero_optimization/stage3_param_persistence_threshold";
    if (!trainers_own && !below_stage3) {
      notes.push_back({Note::Level::Warning, "auto-not-filled",
                       "\"auto\" of " + at.substr(1) + " is filled by nobody: DeepSpeed takes its default.",
                       "write a number or remove the key"});
    }
    item = value.erase(item);
  }
}

}  // namespace

std::int64_t hf_reduce_bucket_size(std::int64_t hidden) { return hidden * hidden; }
std::int64_t hf_prefetch_bucket_size(std::int64_t hidden) {
  // int(0.9 * hidden_size * hidden_size), in Python's order of operations
  return static_cast<std::int64_t>(0.9 * static_cast<double>(hidden) * static_cast<double>(hidden));
}
std::int64_t hf_persistence_threshold(std::int64_t hidden) { return 10 * hidden; }

json without_autos(const json& config, const std::string& file, const DsContext& context, std::vector<Note>& notes) {
  json filled = config;
  if (context.hf) Filler(filled, file, *context.hf).run(context.world_size);
  drop(filled, "", file, context.hf.has_value(), notes);
  return filled;
}

}  // namespace zplan
