// Files that may be gzipped, read whole.
#pragma once

#include <string>

namespace zplan {

// Plain or gzipped, by the first two bytes. Throws InputError.
std::string read_maybe_gzipped(const std::string& path);

}  // namespace zplan
