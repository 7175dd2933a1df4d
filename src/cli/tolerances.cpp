#include "cli/tolerances.h"

#include <algorithm>
#include <cstdlib>

#include "spec/error.h"

namespace zplan {
namespace {

// "0.5%" or "0.005".
double share(const std::string& text, const std::string& where) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string rest = end;
  if (text.empty() || end == text.c_str() || (!rest.empty() && rest != "%") || value < 0) {
    throw InputError(where, "'" + text + "' is not a share", "write 0.005 or 0.5%");
  }
  return rest == "%" ? value / 100 : value;
}

// "allocated_peak=0.5%,2%": mean, and worst if there is a second.
Tolerance tolerance(const std::string& text) {
  const std::string where = "--tolerance " + text;
  const auto equals = text.find('=');
  const auto name = std::find(kQuantityNames.begin(), kQuantityNames.end(), text.substr(0, equals));
  if (name == kQuantityNames.end() || equals == std::string::npos) {
    std::string known;
    for (const auto* n : kQuantityNames) known += (known.empty() ? "" : ", ") + std::string(n);
    throw InputError(where, "no quantity is named", "write QUANTITY=MEAN[,WORST] with one of " + known);
  }
  const auto comma = text.find(',', equals);
  Tolerance t;
  t.quantity = static_cast<Quantity>(name - kQuantityNames.begin());
  t.mean = share(text.substr(equals + 1, comma == std::string::npos ? comma : comma - equals - 1), where);
  if (comma != std::string::npos) t.worst = share(text.substr(comma + 1), where);
  return t;
}

}  // namespace

std::vector<Tolerance> tolerances_of(const std::vector<std::string>& texts) {
  std::vector<Tolerance> out;
  for (const auto& text : texts) out.push_back(tolerance(text));
  return out;
}

}  // namespace zplan
