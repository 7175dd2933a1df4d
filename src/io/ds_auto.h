// "auto" in a ds_config: filled in as the Hugging Face Trainer does, or refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/ds_config_reader.h"

namespace zplan {

// The config without a single "auto". Without HF arguments any "auto" is an InputError: DeepSpeed would drop it in
// its sections, unsaid, and stumble over it elsewhere. With them the Trainer's keys are filled and its comparisons
// made; an "auto" it does not know is dropped with a note, which is what DeepSpeed then does.
nlohmann::json without_autos(const nlohmann::json& config, const std::string& file, const DsContext& context,
                             std::vector<Note>& notes);

}  // namespace zplan
