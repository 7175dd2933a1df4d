#include "io/suggest.h"

#include <algorithm>
#include <tuple>

#include "io/lower_case.h"

namespace zplan {
namespace {

// Levenshtein's distance, a swap of two neighbours counting one (optimal string alignment).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string name_key(const std::string& name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    key += lower_case(c);
  }
  return key;
}

std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known, std::size_t most) {
  const std::string wanted = name_key(name);
  std::vector<std::tuple<std::size_t, std::string>> found;
  for (const std::string& candidate : known) {
    const std::string key = name_key(candidate);
    const std::size_t far = distance(wanted, key);
    const std::size_t allowed = std::max<std::size_t>(1, wanted.size() / 3);
    // A third of the letters may be wrong; names that begin or go on like what was asked come after those.
    if (far <= allowed) {
      found.emplace_back(far, candidate);
    } else if (wanted.size() > 1 && (key.find(wanted) != std::string::npos ||
                                     distance(wanted, key.substr(0, wanted.size())) <= allowed)) {
      found.emplace_back(wanted.size() + far, candidate);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (const auto& [far, candidate] : found) {
    if (names.size() == most) break;
    if (std::find(names.begin(), names.end(), candidate) == names.end()) names.push_back(candidate);
  }
  return names;
}

std::string one_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace zplan
