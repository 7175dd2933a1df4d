#include "step/engine.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "units/units.h"

namespace zplan {

std::int64_t reduction_blocks(std::int64_t n, std::int64_t sm_count) {
  const auto per_thread = ceil_div(n, 512);
  return std::max(std::min(4 * sm_count, ceil_div(per_thread, 16)), ceil_div(per_thread, 256));
}

NormScratch norm_scratch(std::int64_t n, std::int64_t sm_count) {
  const auto blocks = reduction_blocks(n, sm_count);
  return {blocks > 1 ? 8 * blocks : 0};
}

void Scalars::play(const char* events) {
  std::istringstream in(events);
  for (std::string word; in >> word;) {
    if (word.front() == '-') {
      recorder_.free(take(word.substr(1)));
      continue;
    }
    const auto eq = word.find('=');
    live_.emplace_back(word.substr(0, eq), recorder_.allocate(std::stoll(word.substr(eq + 1)), label_));
  }
}

BlockId Scalars::take(const std::string& name) {
  const auto it = std::find_if(live_.begin(), live_.end(), [&](const auto& l) { return l.first == name; });
  if (it == live_.end()) throw std::logic_error("no scalar " + name);
  const auto block = it->second;
  live_.erase(it);
  return block;
}

void Scalars::rename(const std::string& from, const std::string& to) {
  const auto block = take(from);
  live_.emplace_back(to, block);
}

}  // namespace zplan
