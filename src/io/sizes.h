// Sizes of memory as options write them.
#pragma once

#include <string>

#include "units/units.h"

namespace zplan {

// "39GiB", "37.5 GiB", "512 MiB", "1TiB" or a plain count of bytes. Decimal units (GB) are refused: memory is
// binary everywhere in zplan, and guessing costs 7 %. Throws InputError at `where`.
Bytes parse_bytes(const std::string& text, const std::string& where);

}  // namespace zplan
