// The command line of zplan-validate, resolved to a Plan.
#pragma once

#include <optional>
#include <string>

#include "run/plan.h"

namespace zplan::trainer {

struct Parsed {
  Plan plan;
  std::optional<int> exit;  // --help or --version was printed, or the options could not be parsed
};

// Throws InputError. `data`: the folder that holds models/ and hardware/.
Parsed parse_arguments(int argc, const char* const* argv, const std::string& data);

// The ds_config of the Hugging Face Trainer's "auto" values for one stage, as JSON.
std::string default_ds_config(const Model& model, int stage, Precision precision,
                              bool offload_optimizer, bool offload_param, std::int64_t micro_batch,
                              std::int64_t grad_accum);

}  // namespace zplan::trainer
