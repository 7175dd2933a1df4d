// What a ds_config says together: combinations DeepSpeed refuses, and keys without the effect one expects.
#pragma once

#include "io/ds_config_reader.h"
#include "io/json.h"

namespace zplan {

// Throws InputError for what runtime/engine.py and the ZeRO optimizers refuse (their __init__ and sanity checks).
void refuse_combinations(const JsonObject& root, const DsContext& context, const DsConfigFile& read);

// Notes on keys that DeepSpeed ignores or understands in another way than their names say.
std::vector<Note> ignored_or_misleading(const DsConfigFile& read);

}  // namespace zplan
