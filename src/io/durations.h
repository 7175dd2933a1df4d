// Durations as options write them.
#pragma once

#include <string>

#include "units/units.h"

namespace zplan {

// "500ms", "1s", "2.5s", "10m" or "2h". Throws InputError at `where`; 0 and less is none.
Seconds parse_seconds(const std::string& text, const std::string& where);

}  // namespace zplan
