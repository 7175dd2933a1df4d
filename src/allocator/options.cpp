#include "allocator/options.h"

namespace zplan {

// docs/allocator.md#versions has the table with the source of each line.
AllocatorRules allocator_rules(TorchRelease torch) {
  const auto since = [&](int major, int minor) { return torch >= TorchRelease{major, minor}; };
  AllocatorRules rules;
  rules.tie_break = since(2, 13)   ? TieBreak::SegmentCounter
                    : since(2, 12) ? TieBreak::BlockCounter
                                   : TieBreak::Address;
  rules.expandable_segments_known = since(2, 1);
  rules.divisions_of_one_round_to_512 = since(2, 3);
  rules.open_interval_starts_after_last = since(2, 9);
  rules.max_non_split_rounding_known = since(2, 6);
  rules.large_segment_size_known = since(2, 11);
  rules.memory_fraction_key_known = since(2, 10);
  rules.full_fraction_is_unlimited = since(2, 10);
  rules.reject_before_malloc_known = since(2, 12);
  rules.max_split_minimum_allowed = since(2, 9);
  rules.tokens_checked_as_values = since(2, 9);
  rules.expandable_hint_in_message = since(2, 2);
  rules.allowed_bytes_in_message = since(2, 9);
  rules.alloc_conf_without_cuda = since(2, 10) && !since(2, 11);
  rules.docs_pytorch_org_in_message = since(2, 11);
  rules.pinned_reuse = since(2, 6) ? PinnedReuse::PowerOfTwoBuckets : PinnedReuse::BestFit;
  rules.pinned_thresholds_known = since(2, 13);
  return rules;
}

std::optional<Bytes> fraction_limit(double fraction, Bytes total, const AllocatorRules& rules) {
  if (fraction >= 1.0 && rules.full_fraction_is_unlimited) return {};
  return Bytes{static_cast<std::int64_t>(fraction * static_cast<double>(total.count))};
}

std::optional<Bytes> reserved_limit(const AllocatorOptions& options) {
  if (options.capacity_limit) return options.capacity_limit;
  if (options.device_total && options.per_process_memory_fraction < 1.0)
    return fraction_limit(options.per_process_memory_fraction, *options.device_total,
                          options.rules);
  return {};
}

}  // namespace zplan
