#include "episode.h"

#include <algorithm>
#include <cstdio>
#include <random>

namespace zplan {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(below(list.size())));
  }

 private:
  std::mt19937_64 random_;
};

std::string random_conf(Dice& d, const AllocatorRules& rules) {
  const bool expandable = d.one_in(3);
  const bool other = rules.large_segment_size_known && d.one_in(3);
  const std::int64_t segment = other ? d.of<std::int64_t>({12, 16, 24, 40, 64}) : 20;
  const std::int64_t least = segment + (rules.max_split_minimum_allowed ? 0 : 1);
  std::string conf = std::string("expandable_segments:") + (expandable ? "True" : "False");
  if (rules.large_segment_size_known) conf += ",large_segment_size_mb:" + std::to_string(segment);
  if (d.one_in(3))
    conf += ",max_split_size_mb:" + std::to_string(least + d.of<std::int64_t>({0, 1, 10, 44, 180}));
  if (d.one_in(5))
    conf += ",max_non_split_rounding_mb:" + std::to_string(least + d.of<std::int64_t>({0, 20, 80}));
  else if (!rules.large_segment_size_known)
    conf += ",max_non_split_rounding_mb:" + std::to_string(least);
  if (d.one_in(4))
    conf += std::string(",roundup_power2_divisions:") +
            d.of<const char*>(
                {"1", "2", "4", "8", "16", "[1:4,8:8,64:2,>:1]", "[4:2,16:4]", "[2:0,4:8,>:4]"});
  if (d.one_in(3))
    conf += std::string(",garbage_collection_threshold:0.") +
            d.of<const char*>({"1", "3", "5", "7", "9"});
  return conf;
}

// Sizes around which a rule changes, give or take a few bytes.
std::int64_t border_size(Dice& d) {
  const std::int64_t border =
      d.of<std::int64_t>({512, 1024, kMiB, 2 * kMiB, 10 * kMiB, 19 * kMiB, 20 * kMiB, 21 * kMiB,
                          40 * kMiB, 60 * kMiB, 1024 * kMiB});
  const std::int64_t delta =
      d.of<std::int64_t>({-1024, -513, -512, -511, -1, 0, 0, 0, 1, 511, 512, 513, kMiB});
  return std::max<std::int64_t>(1, border + delta);
}

std::int64_t power_law_size(Dice& d) {
  const auto bits = d.between(0, 28);
  return d.between(1, std::int64_t{1} << bits);
}

}  // namespace

Episode make_episode(std::uint64_t seed, const AllocatorRules& rules, int streams,
                     std::size_t count) {
  Dice d(seed);
  Episode e;
  e.seed = seed;
  e.conf = random_conf(d, rules);
  const std::int64_t scale = d.of<std::int64_t>({64, 256, 1024, 4096});  // MiB that live at a time
  const bool limited = !d.one_in(3);
  e.limit = MiB(limited ? d.between(scale / 2, 2 * scale) : 0);
  e.capacity = MiB(d.one_in(3) ? d.between(scale / 2, 2 * scale) : 65536);
  const auto corpus = d.below(4);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(d.between(2, 12)));
  for (auto& bytes : layers) bytes = d.one_in(2) ? power_law_size(d) : border_size(d);
  const auto size = [&] {
    if (d.one_in(200)) return std::int64_t{0};
    if (d.one_in(5000)) return std::int64_t{1} << 60;
    std::int64_t bytes = 0;
    switch (corpus) {
      case 0:
        bytes = d.between(1, 64 * kMiB);
        break;
      case 1:
        bytes = power_law_size(d);
        break;
      case 2:
        bytes = layers[d.below(layers.size())];
        break;
      default:
        bytes = border_size(d);
        break;
    }
    return std::min(bytes, scale * kMiB);
  };
  const auto used_streams = static_cast<std::uint64_t>(d.between(1, streams));
  const auto stream = [&] { return d.one_in(2) ? 0 : static_cast<int>(d.below(used_streams)); };
  const auto order = d.below(3);  // of frees: last first, first first, any
  const auto target = [&]() -> std::uint64_t {
    if (order == 0) return ~d.below(4);
    if (order == 1) return d.below(4);
    return d.below(1u << 20);
  };
  const std::int64_t records = d.of<std::int64_t>({0, 5, 20});
  std::int64_t live = 0;  // a guess of the bytes in use, to keep around the scale
  std::vector<std::int64_t> sizes;
  bool grow = true;
  while (e.steps.size() < count) {
    Step s;
    const auto roll = d.between(1, 1000);
    if (live > scale * kMiB) grow = false;
    if (live < scale * kMiB / 4) grow = true;
    if (roll <= 3) {
      s.op = Step::Op::EmptyCache;
    } else if (roll <= 5) {
      s.op = Step::Op::ResetPeak;
    } else if (roll <= 6) {
      s.op = Step::Op::ResetAccumulated;
    } else if (roll <= 6 + 2 * records) {
      s.op = Step::Op::RecordStream;
      s.stream = stream();
      s.target = target();
    } else if (roll <= 6 + 3 * records) {
      s.op = d.one_in(2) ? Step::Op::Close : Step::Op::Open;
      s.stream = static_cast<int>(d.below(used_streams));
    } else if (d.below(100) < (grow ? 60u : 35u)) {
      s.stream = stream();
      s.bytes = size();
      live += s.bytes;
      sizes.push_back(s.bytes);
    } else {
      s.op = Step::Op::Free;
      s.target = target();
      if (!sizes.empty()) {
        live -= sizes.back();
        sizes.pop_back();
      }
    }
    e.steps.push_back(s);
  }
  return e;
}

std::string text(const Step& s) {
  char line[96];
  switch (s.op) {
    case Step::Op::Allocate:
      std::snprintf(line, sizeof line, "allocate %lld on %d", static_cast<long long>(s.bytes),
                    s.stream);
      return line;
    case Step::Op::Free:
      std::snprintf(line, sizeof line, "free #%llu", static_cast<unsigned long long>(s.target));
      return line;
    case Step::Op::RecordStream:
      std::snprintf(line, sizeof line, "record #%llu on %d",
                    static_cast<unsigned long long>(s.target), s.stream);
      return line;
    case Step::Op::Close:
      return "close " + std::to_string(s.stream);
    case Step::Op::Open:
      return "open " + std::to_string(s.stream);
    case Step::Op::EmptyCache:
      return "empty_cache";
    case Step::Op::ResetPeak:
      return "reset_peak";
    case Step::Op::ResetAccumulated:
      return "reset_accumulated";
  }
  return {};
}

}  // namespace zplan
