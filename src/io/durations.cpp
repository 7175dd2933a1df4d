#include "io/durations.h"

#include <cmath>
#include <cstdlib>

#include "spec/error.h"

namespace zplan {

Seconds parse_seconds(const std::string& text, const std::string& where) {
  const bool starts_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  char* end = nullptr;
  const double number = starts_with_digit ? std::strtod(text.c_str(), &end) : 0;
  const std::string unit = starts_with_digit ? std::string(end) : "";
  double scale = 0;
  if (unit == "ms") scale = 1e-3;
  else if (unit == "s") scale = 1;
  else if (unit == "m" || unit == "min") scale = 60;
  else if (unit == "h") scale = 3600;
  const double seconds = number * scale;
  if (!(seconds > 0) || !std::isfinite(seconds) || seconds > 1e9) {
    throw InputError(where, "'" + text + "' is no duration", "write it with its unit, such as 500ms, 1s, 10m or 2h");
  }
  return {seconds};
}

}  // namespace zplan
