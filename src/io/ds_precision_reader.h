// The precision of a ds_config: bf16, fp16, torch_autocast, data_types, communication_data_type
// (runtime/precision_config.py, runtime/config.py, runtime/engine.py:get_data_types).
#pragma once

#include <vector>

#include "io/json.h"
#include "spec/ds_config.h"
#include "spec/note.h"
#include "spec/versions.h"

namespace zplan {

// Sets the precision fields of `config`, whose zero section is already read.
void read_precision(const JsonObject& root, const Versions& versions, DsConfig& config, std::vector<Note>& notes);

}  // namespace zplan
