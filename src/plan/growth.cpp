#include "plan/growth.h"

#include <algorithm>

namespace zplan {
namespace {

constexpr std::size_t kWindows = 6;           // looked at together
constexpr std::size_t kMostMaxima = 1 << 14;  // kept: days, at windows of half a minute

}  // namespace

void GrowthDetector::add(Seconds at, Bytes used) {
  if (!window_began_) window_began_ = at;
  if (at - *window_began_ >= window_) {
    // A gap without samples closes one window, not many empty ones.
    maxima_.push_back(highest_);
    if (maxima_.size() > kMostMaxima) maxima_.erase(maxima_.begin(), maxima_.begin() + kMostMaxima / 2);
    window_began_ = at;
    highest_ = {};
    growth_.reset();
    // A leak that is slower than a window is seen where several windows are taken as one.
    for (std::size_t scale = 1; scale * kWindows <= maxima_.size() && !growth_; scale *= 2) growth_ = at_scale(scale);
  }
  highest_ = std::max(highest_, used);
}

std::optional<Growth> GrowthDetector::at_scale(std::size_t scale) const {
  std::vector<Bytes> highest;
  for (auto from = maxima_.end() - static_cast<std::ptrdiff_t>(scale * kWindows); from != maxima_.end();) {
    const auto to = from + static_cast<std::ptrdiff_t>(scale);
    highest.push_back(*std::max_element(from, to));
    from = to;
  }
  const Bytes rise = highest.back() - highest.front();
  if (rise < least_) return std::nullopt;
  Bytes largest;
  for (std::size_t i = 1; i < kWindows; ++i) {
    if (highest[i] <= highest[i - 1]) return std::nullopt;
    largest = std::max(largest, highest[i] - highest[i - 1]);
  }
  if (2 * largest > rise) return std::nullopt;                                          // one jump
  if (4 * (highest[kWindows - 1] - highest[kWindows - 3]) < rise) return std::nullopt;  // it slows down: a warm-up
  const double width = window_.count * static_cast<double>(scale);
  std::vector<double> slopes;
  for (std::size_t i = 0; i < kWindows; ++i) {
    for (std::size_t j = i + 1; j < kWindows; ++j) {
      slopes.push_back(static_cast<double>((highest[j] - highest[i]).count) / (width * static_cast<double>(j - i)));
    }
  }
  std::nth_element(slopes.begin(), slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2), slopes.end());
  return Growth{slopes[slopes.size() / 2], rise, Seconds{width * (kWindows - 1)}};
}

}  // namespace zplan
