#include "units/text.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace zplan {
namespace {

std::string format(const char* pattern, int decimals, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, decimals, value, unit);
  return buffer;
}

}  // namespace

std::string text(Bytes bytes, int decimals) {
  const double n = static_cast<double>(bytes.count);
  const double size = std::abs(n);
  if (size >= 0.05 * 1024 * 1024 * 1024 || bytes.count == 0) {
    return format("%.*f %s", decimals, n / (1024.0 * 1024 * 1024), "GiB");
  }
  if (size >= 1024 * 1024) return format("%.*f %s", decimals, n / (1024.0 * 1024), "MiB");
  return text_grouped(bytes.count) + " bytes";
}

std::string text_signed(Bytes bytes, int decimals) {
  return (bytes.count >= 0 ? "+" : "") + text(bytes, decimals);
}

std::string text_exact(Bytes bytes) { return text_grouped(bytes.count) + " bytes"; }

std::string text(Seconds seconds) {
  const double s = seconds.count;
  if (s >= 100) return format("%.*f %s", 0, s, "s");
  if (s >= 1) return format("%.*f %s", 2, s, "s");
  if (s >= 1e-3) return format("%.*f %s", 0, s * 1e3, "ms");
  return format("%.*f %s", 0, s * 1e6, "us");
}

std::string text_grouped(std::int64_t n) {
  std::string digits = std::to_string(n < 0 ? -n : n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return (n < 0 ? "-" : "") + digits;
}

std::string text_count(std::int64_t n) {
  const double v = static_cast<double>(n);
  if (n >= 1'000'000'000) return format("%.*f%s", 2, v / 1e9, "B");
  if (n >= 1'000'000) return format("%.*f%s", 0, v / 1e6, "M");
  return text_grouped(n);
}

}  // namespace zplan
