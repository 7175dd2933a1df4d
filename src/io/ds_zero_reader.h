// The "zero_optimization" section (runtime/zero/config.py, runtime/zero/offload_config.py).
#pragma once

#include <vector>

#include "io/json.h"
#include "spec/ds_config.h"
#include "spec/note.h"
#include "spec/versions.h"

namespace zplan {

// `root` is the whole ds_config: the section may be missing, and its oldest form is a boolean.
ZeroConfig read_zero(const JsonObject& root, const Versions& versions, std::vector<Note>& notes);

}  // namespace zplan
