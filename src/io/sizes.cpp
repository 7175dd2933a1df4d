#include "io/sizes.h"

#include <cmath>
#include <cstdlib>

#include "spec/error.h"

namespace zplan {

Bytes parse_bytes(const std::string& text, const std::string& where) {
  const char* begin = text.c_str();
  char* end = nullptr;
  const bool starts_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const double number = starts_with_digit ? std::strtod(begin, &end) : 0;
  std::string unit = starts_with_digit ? std::string(end) : "?";
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  double scale = 0;
  if (unit.empty()) scale = 1;
  else if (unit == "KiB") scale = 1024.0;
  else if (unit == "MiB") scale = 1024.0 * 1024;
  else if (unit == "GiB") scale = 1024.0 * 1024 * 1024;
  else if (unit == "TiB") scale = 1024.0 * 1024 * 1024 * 1024;
  const double bytes = std::round(number * scale);
  if (scale == 0 || !(bytes >= 1) || bytes > 9e18) {
    throw InputError(where, "'" + text + "' is not a size", "write it in GiB (2^30 bytes), such as 39GiB or 37.5GiB");
  }
  return {static_cast<std::int64_t>(bytes)};
}

}  // namespace zplan
