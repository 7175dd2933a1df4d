// Up to 2.8 one parser, which insists on every colon and comma (c10/cuda/CUDAAllocatorConfig.cpp).
// Since 2.9 two passes, one for keys of every accelerator and one for CUDA's, which check only that
// a token is there (c10/core/AllocatorConfig.cpp).
#include "allocator/alloc_conf.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace zplan {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr auto kUnlimited = std::numeric_limits<std::int64_t>::max();

std::vector<std::string> tokens_of(const std::string& conf) {
  std::vector<std::string> tokens;
  std::string word;
  for (const char c : conf) {
    if (c == ',' || c == ':' || c == '[' || c == ']') {
      if (!word.empty()) tokens.push_back(std::move(word));
      word.clear();
      tokens.emplace_back(1, c);
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      word += c;
    }
  }
  if (!word.empty()) tokens.push_back(std::move(word));
  return tokens;
}

enum class Group { Accelerator, Cuda };
struct Key {
  const char* name;
  Group group;
  bool known;
};

std::vector<Key> keys_of(const AllocatorRules& r) {
  using enum Group;
  return {{"max_split_size_mb", Accelerator, true},
          {"max_non_split_rounding_mb", Accelerator, r.max_non_split_rounding_known},
          {"large_segment_size_mb", Accelerator, r.large_segment_size_known},
          {"garbage_collection_threshold", Accelerator, true},
          {"roundup_power2_divisions", Accelerator, true},
          {"expandable_segments", Accelerator, r.expandable_segments_known},
          {"pinned_use_background_threads", Accelerator, r.max_non_split_rounding_known},
          {"backend", Cuda, true},
          {"release_lock_on_cudamalloc", Cuda, true},
          {"release_lock_on_hipmalloc", Cuda, true},
          {"pinned_use_cuda_host_register", Cuda, true},
          {"pinned_use_hip_host_register", Cuda, true},
          {"pinned_num_register_threads", Cuda, true},
          {"pinned_reserve_segment_size_mb", Cuda, r.memory_fraction_key_known},
          {"graph_capture_record_stream_reuse", Cuda, r.memory_fraction_key_known},
          {"per_process_memory_fraction", Cuda, r.memory_fraction_key_known},
          {"throw_on_cudamalloc_oom", Cuda, r.reject_before_malloc_known},
          {"pinned_free_catch_all", Cuda, r.reject_before_malloc_known},
          {"pinned_max_round_threshold_mb", Accelerator, r.pinned_thresholds_known},
          {"pinned_max_cached_size_mb", Accelerator, r.pinned_thresholds_known}};
}

// How many letters to change, drop or add to come from a to b.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

bool power_of_two(std::int64_t n) {
  return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n));
}

class Parser {
 public:
  Parser(const std::string& conf, const AllocatorRules& rules, const AllocatorOptions& base)
      : tokens_(tokens_of(conf)),
        keys_(keys_of(rules)),
        lenient_(rules.tokens_checked_as_values),
        out_(base) {
    out_.rules = rules;
    out_.max_split_size = kUnlimited;
    out_.roundup_power2_divisions.fill(0);
    out_.garbage_collection_threshold = 0;
    segment_mb_ = static_cast<std::uint64_t>(out_.large_segment_size / kMiB);
  }

  AllocatorOptions parse() {
    if (out_.rules.large_segment_size_known) large_segment_first();
    if (lenient_) {
      pass([](const Key& k) { return k.group == Group::Accelerator; });
      pass([](const Key& k) { return k.group == Group::Cuda; });
    } else {
      pass([](const Key&) { return true; });
    }
    return out_;
  }

 private:
  [[noreturn]] static void fail(const std::string& text, const std::string& fix) {
    throw AllocConfError(text, fix);
  }

  template <class Mine>
  void pass(Mine mine) {
    for (i_ = 0; i_ < tokens_.size(); ++i_) {
      key_ = tokens_[i_];
      const auto key = std::find_if(keys_.begin(), keys_.end(),
                                    [&](const Key& k) { return k.known && key_ == k.name; });
      if (key == keys_.end()) unknown_key();
      if (mine(*key) && key_ != "large_segment_size_mb") {
        value();
      } else {
        skip();
      }
      if (i_ + 1 < tokens_.size()) separator(",");
    }
  }

  // 2.11 reads this key before all others, wherever it stands.
  void large_segment_first() {
    for (i_ = 0; i_ < tokens_.size(); ++i_) {
      key_ = tokens_[i_];
      if (key_ != "large_segment_size_mb") continue;
      separator(":");
      const std::int64_t mb = size_value();
      if (mb <= 10)
        fail("CachingAllocator option large_segment_size_mb must be > 10 MB",
             "use an even number from 12 on");
      out_.large_segment_size = megabytes(mb);
      segment_mb_ = std::min<std::uint64_t>(std::stoull(tokens_[i_]), ~std::uint64_t{0} >> 20);
    }
    out_.max_non_split_rounding = out_.large_segment_size;
  }

  [[noreturn]] void unknown_key() const {
    const Key* nearest = &keys_.front();
    for (const Key& k : keys_)
      if (k.known && distance(key_, k.name) < distance(key_, nearest->name)) nearest = &k;
    std::string fix = "did you mean " + std::string(nearest->name) + "?";
    if (key_.find('=') != std::string::npos) fix = "write key:value, not key=value";
    if (key_ == "True" || key_ == "False") fix = "separate key:value pairs with commas, not spaces";
    if (key_ == ",") fix = "remove the empty entry between two commas";
    fail(lenient_ ? "Unrecognized key '" + key_ + "' in Accelerator allocator config."
                  : "Unrecognized CachingAllocator option: " + key_,
         fix);
  }

  // The key's value is somebody else's: its last token.
  void skip() {
    separator(":");
    next();
    if (tokens_[i_] != "[") return;
    while (++i_ < tokens_.size() && tokens_[i_] != "]") {
    }
    if (i_ >= tokens_.size())
      fail("Expected closing bracket ']' in ConfigTokenizer but reached end of config",
           "close the list with ]");
  }

  void separator(const char* token) {
    ++i_;
    if (lenient_) {
      in_bounds();
    } else if (i_ >= tokens_.size() || tokens_[i_] != token) {
      fail(std::string("Error parsing CachingAllocator settings, expected ") + token,
           "write key:value,key:value");
    }
  }

  void in_bounds() const {
    if (i_ >= tokens_.size())
      fail("Index out of bounds in ConfigTokenizer",
           "give " + key_ + " a value: " + key_ + ":VALUE");
  }

  void next() {
    ++i_;
    if (lenient_) return in_bounds();
    if (i_ < tokens_.size()) return;
    fail(key_ == "backend" ? "Error parsing backend value" : "Error, expecting " + key_ + " value",
         "give it one: " + key_ + ":VALUE");
  }

  std::int64_t size_value() {
    next();
    return size_at(i_);
  }
  std::int64_t size_at(std::size_t i) const {
    const std::string fix = "give " + key_ + " a whole number, not \"" + tokens_[i] + "\"";
    try {
      if (!lenient_) return std::stoi(tokens_[i]);
      const unsigned long long n =
          std::stoull(tokens_[i]);  // "-5" wraps to a huge number, as there
      return n > static_cast<unsigned long long>(kUnlimited) ? kUnlimited
                                                             : static_cast<std::int64_t>(n);
    } catch (const std::exception&) {
      fail(lenient_ ? "stoull" : "stoi", fix);
    }
  }
  std::int64_t megabytes(std::int64_t mb) const {
    // A size_t there: -1 is the most.
    return mb < 0 || mb > kUnlimited / kMiB ? kUnlimited : mb * kMiB;
  }

  double number() {
    next();
    try {
      return std::stod(tokens_[i_]);
    } catch (const std::exception&) {
      fail("stod", "give " + key_ + " a number, not \"" + tokens_[i_] + "\"");
    }
  }

  bool boolean() {
    separator(":");
    if (lenient_) {
      next();
    } else {
      ++i_;
    }
    if (i_ < tokens_.size() && tokens_[i_] == "True") return true;
    if (i_ < tokens_.size() && tokens_[i_] == "False") return false;
    fail(lenient_ ? "Expected 'True' or 'False' at index " + std::to_string(i_) +
                        " in ConfigTokenizer but got '" + tokens_[i_] + "'"
                  : "Expected a single True/False argument for " + key_,
         "write " + key_ + ":True or " + key_ + ":False");
  }

  void value() {
    if (key_ == "max_split_size_mb") {
      out_.max_split_size = at_least_a_segment();
    } else if (key_ == "max_non_split_rounding_mb") {
      out_.max_non_split_rounding = at_least_a_segment();
    } else if (key_ == "garbage_collection_threshold") {
      garbage_collection_threshold();
    } else if (key_ == "roundup_power2_divisions") {
      divisions();
    } else if (key_ == "expandable_segments") {
      out_.expandable_segments = boolean();
    } else if (key_ == "pinned_use_background_threads") {
      out_.pinned.use_background_threads = boolean();
    } else if (key_ == "backend") {
      backend();
    } else if (key_ == "pinned_use_cuda_host_register" || key_ == "pinned_use_hip_host_register") {
      out_.pinned.use_cuda_host_register = boolean();
    } else if (key_ == "pinned_num_register_threads") {
      register_threads();
    } else if (key_ == "pinned_reserve_segment_size_mb") {
      separator(":");
      out_.pinned.reserve_segment = Bytes{megabytes(size_value())};
      if (out_.pinned.reserve_segment.count == 0)
        fail("Pinned reserve segment size has to be greater than 0",
             "leave the key out to reserve nothing");
    } else if (key_ == "per_process_memory_fraction") {
      separator(":");
      const double fraction = number();
      if (!(fraction >= 0.0 && fraction <= 1.0))
        fail("per_process_memory_fraction is invalid, set it in [0.0, 1.0]",
             "use a share such as 0.9");
      out_.per_process_memory_fraction = fraction;
    } else if (key_ == "throw_on_cudamalloc_oom") {
      out_.throw_on_cudamalloc_oom = boolean();
    } else if (key_ == "pinned_max_round_threshold_mb") {
      separator(":");
      out_.pinned.max_round_threshold = Bytes{megabytes(size_value())};
    } else if (key_ == "pinned_max_cached_size_mb") {
      separator(":");
      out_.pinned.max_cached_size = Bytes{megabytes(size_value())};
    } else {
      boolean();  // release_lock_on_cudamalloc, graph_capture_record_stream_reuse: no effect on
                  // sizes
    }
  }

  std::int64_t at_least_a_segment() {
    separator(":");
    const std::int64_t mb = size_value();
    const std::uint64_t segment = segment_mb_;  // torch's own number, also where it passes ours
    const bool equal_is_fine = out_.rules.max_split_minimum_allowed;
    const auto asked = static_cast<std::uint64_t>(mb);
    if (asked < segment || (asked == segment && !equal_is_fine))
      fail(
          "CachingAllocator option " + key_ + " too small, must be " +
              (equal_is_fine ? ">= " : "> ") + std::to_string(segment),
          "use " + key_ + ":" + std::to_string(equal_is_fine ? segment : segment + 1) + " or more");
    return megabytes(mb);
  }

  void garbage_collection_threshold() {
    separator(":");
    const double share = number();
    if (!(share > 0 && share < 1.0)) {
      const std::string old = "garbage_collect_threshold too " +
                              std::string(share > 0 ? "big" : "small") + ", set it 0.0~1.0";
      fail(lenient_ ? "garbage_collect_threshold is invalid, set it in (0.0, 1.0)" : old,
           "use a share such as 0.8");
    }
    out_.garbage_collection_threshold = share;
  }

  void divisions() {
    auto& all = out_.roundup_power2_divisions;
    separator(":");
    next();
    if (tokens_[i_] != "[") {
      const std::int64_t n = size_at(i_);
      if (!power_of_two(n))
        fail("For roundups, the divisions has to be power of 2 ", "use 1, 2, 4, 8 or 16");
      all.fill(n);
      return;
    }
    std::size_t last = 0;
    bool first = true;
    while (++i_ < tokens_.size() && tokens_[i_] != "]") {
      const std::size_t from = i_;
      separator(":");
      const std::int64_t n = size_value();
      if (n != 0 && !power_of_two(n))
        fail("For roundups, the divisions has to be power of 2 or 0 to disable roundup ",
             "use 0, 1, 2, 4, 8 or 16");
      if (tokens_[from] == ">") {
        const std::size_t start = last + (out_.rules.open_interval_starts_after_last ? 1 : 0);
        std::fill(all.begin() + static_cast<std::ptrdiff_t>(start), all.end(), n);
      } else {
        const std::int64_t boundary = size_at(from);
        if (!power_of_two(boundary))
          fail("For roundups, the intervals have to be power of 2 ",
               "use interval starts of 1, 2, 4, ... MiB");
        const auto index = std::min<std::size_t>(
            static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(boundary))) - 1,
            all.size() - 1);
        if (first) std::fill(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(index), n);
        first = false;
        all[index] = n;
        last = index;
      }
      if (i_ + 1 >= tokens_.size()) list_not_closed("Index out of bounds in ConfigTokenizer");
      if (tokens_[i_ + 1] != "]") separator(",");
    }
    if (i_ >= tokens_.size())
      list_not_closed("Expected closing bracket ']' in ConfigTokenizer but reached end of config");
  }

  [[noreturn]] void list_not_closed(const char* text) const {
    fail(lenient_ ? text : "Error parsing CachingAllocator settings, expected ,",
         "close the list with ]");
  }

  void backend() {
    separator(":");
    next();
    if (tokens_[i_] == "native") return;
    if (tokens_[i_] != "cudaMallocAsync")
      fail("Unknown allocator backend, options are native and cudaMallocAsync",
           "use backend:native");
    fail(
        "backend:cudaMallocAsync replaces the caching allocator by the driver's, which is not "
        "simulated",
        "leave the key out, or use backend:native");
  }

  void register_threads() {
    separator(":");
    const std::int64_t n = size_value();
    const std::string got = lenient_ ? ", got " + std::to_string(std::stoull(tokens_[i_])) : "";
    if (!power_of_two(n))
      fail("Number of register threads has to be power of 2" + (lenient_ ? got : " "),
           "use 1, 2, 4, 8, ...");
    if (n > 128)
      fail("Number of register threads should be less than or equal to 128" + got,
           "use 128 or fewer");
    out_.pinned.num_register_threads = n;
  }

  std::vector<std::string> tokens_;
  std::vector<Key> keys_;
  bool lenient_;
  AllocatorOptions out_;
  std::uint64_t segment_mb_ = 20;
  std::size_t i_ = 0;
  std::string key_;  // being read
};

}  // namespace

AllocatorOptions parse_alloc_conf(const std::string& conf, const AllocatorRules& rules,
                                  const AllocatorOptions& base) {
  return Parser(conf, rules, base).parse();
}

}  // namespace zplan
