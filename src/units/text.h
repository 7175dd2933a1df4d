// The text form of every quantity. A quantity is printed only through here, with its unit.
#pragma once

#include <string>

#include "units/units.h"

namespace zplan {

// "36.6 GiB": GiB with the given decimals; below 0.05 GiB in MiB, below 1 MiB in bytes.
std::string text(Bytes bytes, int decimals = 1);
// "+1.2 GiB" or "-0.3 GiB".
std::string text_signed(Bytes bytes, int decimals = 1);
// "40,265,318,400 bytes".
std::string text_exact(Bytes bytes);
// "1.66 s", "41 ms", "12 us".
std::string text(Seconds seconds);
// "8,190,735,360".
std::string text_grouped(std::int64_t n);
// "8.19B", "596M", "1,234".
std::string text_count(std::int64_t n);

}  // namespace zplan
