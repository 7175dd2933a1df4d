#include "step/agreement.h"

#include <algorithm>

namespace zplan {

Agreement agreement(const std::vector<Request>& a, const std::vector<Request>& b) {
  Agreement result{a.size(), b.size(), 0, std::nullopt, std::nullopt};
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  if (same < a.size() || same < b.size()) {
    result.recorded_at = same;
    result.simulated_at = same;
  }
  // Furthest x on each diagonal k = x - y after d insertions and deletions.
  const auto n = static_cast<std::ptrdiff_t>(a.size()), m = static_cast<std::ptrdiff_t>(b.size());
  const auto most = n + m;
  std::vector<std::ptrdiff_t> furthest(static_cast<std::size_t>(2 * most + 2), 0);
  const auto at = [&](std::ptrdiff_t k) -> std::ptrdiff_t& { return furthest[static_cast<std::size_t>(k + most)]; };
  for (std::ptrdiff_t d = 0; d <= most; ++d) {
    for (std::ptrdiff_t k = -d; k <= d; k += 2) {
      if (k < -m || k > n) continue;
      std::ptrdiff_t x = 0;
      if (d > 0) {
        const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
        x = down ? at(k + 1) : at(k - 1) + 1;
      }
      std::ptrdiff_t y = x - k;
      while (x < n && y >= 0 && y < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)]) ++x, ++y;
      at(k) = x;
      if (x >= n && y >= m) {
        result.matched = static_cast<std::size_t>((most - d) / 2);
        return result;
      }
    }
  }
  return result;
}

}  // namespace zplan
