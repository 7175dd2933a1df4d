#include "io/natural_order.h"

#include <cctype>
#include <cstdlib>

#include "io/lower_case.h"

namespace zplan {
namespace {
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
}  // namespace

bool natural_less(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      char *a_end = nullptr, *b_end = nullptr;
      const double x = std::strtod(a.c_str() + i, &a_end), y = std::strtod(b.c_str() + j, &b_end);
      if (x != y) return x < y;
      i = static_cast<std::size_t>(a_end - a.c_str());
      j = static_cast<std::size_t>(b_end - b.c_str());
    } else {
      if (lower_case(a[i]) != lower_case(b[j])) return lower_case(a[i]) < lower_case(b[j]);
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace zplan
