#include "conf_strings.h"

#include <random>
#include <vector>

#include "allocator/alloc_conf.h"

namespace zplan {
namespace {

std::string random_conf(std::mt19937_64& random) {
  static const std::vector<std::string> words = {"max_split_size_mb",
                                                 "max_non_split_rounding_mb",
                                                 "large_segment_size_mb",
                                                 "garbage_collection_threshold",
                                                 "roundup_power2_divisions",
                                                 "expandable_segments",
                                                 "pinned_use_background_threads",
                                                 "backend",
                                                 "release_lock_on_cudamalloc",
                                                 "pinned_use_cuda_host_register",
                                                 "pinned_num_register_threads",
                                                 "pinned_reserve_segment_size_mb",
                                                 "graph_capture_record_stream_reuse",
                                                 "per_process_memory_fraction",
                                                 "max_split_size",
                                                 "unknown",
                                                 "throw_on_cudamalloc_oom",
                                                 "pinned_free_catch_all",
                                                 "pinned_max_round_threshold_mb",
                                                 "pinned_max_cached_size_mb",
                                                 "True",
                                                 "False",
                                                 "native",
                                                 "0",
                                                 "1",
                                                 "3",
                                                 "8",
                                                 "12",
                                                 "20",
                                                 "21",
                                                 "64",
                                                 "128",
                                                 "256",
                                                 "0.5",
                                                 "1.5",
                                                 "-1",
                                                 "x",
                                                 "20x",
                                                 "[256:1,512:2,>:8]",
                                                 "[1:2,>:4]",
                                                 "[3:4]",
                                                 "[4:3]",
                                                 "[",
                                                 "]",
                                                 ">",
                                                 ""};
  static const std::vector<std::string> good = {"max_split_size_mb:64",
                                                "max_non_split_rounding_mb:80",
                                                "large_segment_size_mb:20",
                                                "large_segment_size_mb:40",
                                                "garbage_collection_threshold:0.8",
                                                "roundup_power2_divisions:4",
                                                "roundup_power2_divisions:[256:1,512:2,>:8]",
                                                "expandable_segments:True",
                                                "expandable_segments:False",
                                                "pinned_num_register_threads:8",
                                                "pinned_use_background_threads:True",
                                                "per_process_memory_fraction:0.5",
                                                "backend:native"};
  std::string conf;
  const std::size_t pairs = 1 + random() % 3;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (i > 0) conf += random() % 20 == 0 ? (random() % 2 ? " " : ",,") : ",";
    if (random() % 2) {
      conf += good[random() % good.size()];
    } else {
      conf += words[random() % words.size()] + (random() % 10 == 0 ? "=" : ":") +
              words[random() % words.size()];
    }
  }
  return conf;
}

std::string differs(const AllocatorOptions& theirs, AllocatorOptions ours) {
  ours.rules = theirs.rules;
  ours.max_split_size =
      std::min(ours.max_split_size, theirs.max_split_size | 0xfffff);  // 2^63 does not fit ours
  if (theirs.expandable_segments != ours.expandable_segments) return "expandable_segments";
  if (theirs.max_split_size >> 20 != ours.max_split_size >> 20) return "max_split_size";
  if (theirs.max_non_split_rounding >> 20 != ours.max_non_split_rounding >> 20)
    return "max_non_split_rounding";
  if (theirs.large_segment_size != ours.large_segment_size) return "large_segment_size";
  if (theirs.garbage_collection_threshold != ours.garbage_collection_threshold)
    return "garbage_collection_threshold";
  if (theirs.roundup_power2_divisions != ours.roundup_power2_divisions)
    return "roundup_power2_divisions";
  if (theirs.per_process_memory_fraction != ours.per_process_memory_fraction)
    return "per_process_memory_fraction";
  if (theirs.pinned.use_background_threads != ours.pinned.use_background_threads)
    return "background threads";
  if (theirs.pinned.num_register_threads != ours.pinned.num_register_threads)
    return "register threads";
  return {};
}

}  // namespace

ConfComparison compare_conf_strings(TorchAllocator& torch, const AllocatorRules& rules,
                                    std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  ConfComparison out;
  for (; out.compared < count; ++out.compared) {
    const std::string conf = random_conf(random);
    const AllocatorOptions before = torch.configured();
    const auto refused = torch.configure(conf);
    std::string ours;
    AllocatorOptions options;
    try {
      options = parse_alloc_conf(conf, rules, before);
    } catch (const AllocConfError& e) {
      ours = e.what();
    }
    std::string what;
    if (refused.value_or("") != ours) {
      what = "torch says \"" + refused.value_or("(accepted)") + "\", we say \"" + ours + "\"";
    } else if (!refused) {
      what = differs(torch.configured(), options);
    }
    if (!what.empty()) {
      out.difference = "\"" + conf + "\": " + what;
      return out;
    }
    torch.configure(rules.large_segment_size_known
                        ? "large_segment_size_mb:20,max_non_split_rounding_mb:20"
                        : "max_non_split_rounding_mb:20");
  }
  return out;
}

}  // namespace zplan
