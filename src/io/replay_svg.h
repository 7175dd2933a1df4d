// A picture of a recorded history: memory over events above, segments with their blocks and holes
// below.
#pragma once

#include <string>

#include "io/trace_reader.h"

namespace zplan {

std::string replay_svg(const RecordedHistory& history);

}  // namespace zplan
