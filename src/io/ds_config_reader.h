// A ds_config.json as DeepSpeed's own reader understands it: its aliases, deprecated keys, defaults by version,
// batch arithmetic and refusals. Sources: docs/files.md#ds-config.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "spec/ds_config.h"
#include "spec/note.h"
#include "spec/versions.h"

namespace zplan {

// What the Hugging Face Trainer fills "auto" with (transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig)
// and compares the other values with. An absent one was not said: then nothing is compared, and "auto" is an error.
struct HfArguments {
  std::int64_t hidden_size = 0;
  std::optional<std::int64_t> micro_batch;    // per_device_train_batch_size
  std::optional<std::int64_t> grad_accum;     // gradient_accumulation_steps
  std::optional<double> max_grad_norm;        // the Trainer's default is 1.0
  std::optional<Precision> precision;         // bf16, fp16 or neither
  Precision precision_if_auto = Precision::Bf16;  // what "auto" means where `precision` was not said
};

struct DsContext {
  std::int64_t world_size = 1;                // data-parallel ranks
  Versions versions = default_versions();
  std::optional<HfArguments> hf;              // absent: DeepSpeed alone, which fills no "auto"
};

struct DsConfigFile {
  DsConfig config;
  std::string optimizer_type;         // lower case; empty: the ds_config has no optimizer, the script brings one
  bool torch_adam = false;            // optimizer.params.torch_adam: torch's AdamW instead of DeepSpeed's
  std::set<std::string> given;        // JSON pointers of the keys that stand in the file
  std::vector<Note> notes;            // deprecated, ignored and misleading keys
};

// Throws InputError, naming file and JSON pointer, for whatever DeepSpeed would refuse.
DsConfigFile read_ds_config(const std::string& text, const std::string& file, const DsContext& context);
// The same for a config inside another file, at `where` ("runs.jsonl:3:/ds_config").
DsConfigFile read_ds_config(const nlohmann::json& config, const std::string& where, const DsContext& context);

// transformers' integer formulas for "auto" with hidden size h: h^2, int(0.9 h^2), 10 h.
std::int64_t hf_reduce_bucket_size(std::int64_t hidden);
std::int64_t hf_prefetch_bucket_size(std::int64_t hidden);
std::int64_t hf_persistence_threshold(std::int64_t hidden);

}  // namespace zplan
