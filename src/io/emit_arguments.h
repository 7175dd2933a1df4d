// The arguments of the training script, as lines of a shell array. What the Trainer compares with
// ds_config.json comes from the same values.
#pragma once

#include <string>
#include <vector>

#include "io/emit.h"

namespace zplan {

// A word that a shell reads back as `text`.
std::string shell_word(const std::string& text);

// "--seq_len 2048" and so on. `own_script`: only what every script with TrainingArguments takes.
std::vector<std::string> training_arguments(const Run& run, const EmitOptions& options);

}  // namespace zplan
