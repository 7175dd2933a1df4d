// How PyTorch's caching allocators are configured: the options of PYTORCH_CUDA_ALLOC_CONF, the
// limits of the device, and the rules that differ between torch releases.
// docs/allocator.md#versions
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "units/units.h"

namespace zplan {

// A torch release as far as the allocator cares: 2.11.0+cu130 is {2, 11}.
struct TorchRelease {
  int major = 2, minor = 11;
  friend constexpr auto operator<=>(const TorchRelease&, const TorchRelease&) = default;
};

// Which of several free blocks of the same pool, stream and size is used first.
enum class TieBreak : std::uint8_t {
  Address,         // up to 2.11: the lowest address
  BlockCounter,    // 2.12: the block object made first; the front of a split is a new object
  SegmentCounter,  // 2.13: the segment made first, then the lowest address
};

// How the pinned-host allocator finds a free block.
enum class PinnedReuse : std::uint8_t {
  BestFit,            // up to 2.5: any free block that is large enough, the smallest first
  PowerOfTwoBuckets,  // from 2.6: only blocks of the request's own power of two
};

// What changed between releases, one switch a behaviour. The default-constructed value is 2.11.
struct AllocatorRules {
  TieBreak tie_break = TieBreak::Address;
  bool expandable_segments_known = true;        // from 2.1
  bool divisions_of_one_round_to_512 = true;    // up to 2.2 a division of 1 left sizes unrounded
  bool open_interval_starts_after_last = true;  // from 2.9; where `>` of the divisions begins
  bool max_non_split_rounding_known = true;     // from 2.6
  bool large_segment_size_known = true;         // from 2.11
  bool memory_fraction_key_known = true;        // per_process_memory_fraction, from 2.10
  bool full_fraction_is_unlimited = true;       // from 2.10; before, 1.0 limits to the total
  bool reject_before_malloc_known = false;      // throw_on_cudamalloc_oom, from 2.12
  bool max_split_minimum_allowed = true;  // from 2.9 the smallest size may equal the large segment
  bool tokens_checked_as_values = true;   // texts of configuration errors since 2.9
  bool expandable_hint_in_message =
      true;  // from 2.2; before, the out-of-memory text advises max_split_size_mb
  bool allowed_bytes_in_message = true;     // the out-of-memory text names the limit: from 2.9
  bool alloc_conf_without_cuda = false;     // the text's hint says PYTORCH_ALLOC_CONF: 2.10 alone
  bool docs_pytorch_org_in_message = true;  // the text's link: from 2.11
  PinnedReuse pinned_reuse = PinnedReuse::PowerOfTwoBuckets;
  bool pinned_thresholds_known = false;  // pinned_max_round_threshold_mb, ..._cached_size_mb: 2.13
  friend bool operator==(const AllocatorRules&, const AllocatorRules&) = default;
};
AllocatorRules allocator_rules(TorchRelease torch);

// The pinned-host allocator's share of the options.
struct PinnedOptions {
  bool use_cuda_host_register = false;  // how pages are pinned; sizes do not depend on it
  std::int64_t num_register_threads = 1;
  bool use_background_threads = false;  // events are polled by a thread, not by the next request
  Bytes reserve_segment;                // pinned once, small requests are cut from it; 0 = none
  Bytes max_round_threshold{
      std::numeric_limits<std::int64_t>::max()};  // larger requests keep their size
  Bytes max_cached_size{std::numeric_limits<std::int64_t>::max()};  // larger blocks are not kept
  friend bool operator==(const PinnedOptions&, const PinnedOptions&) = default;
};

struct AllocatorOptions {
  AllocatorRules rules;
  // Grow one mapped range per pool and stream instead of separate segments. Default off; the first
  // thing to try when reserved is far above allocated.
  bool expandable_segments = false;
  // Free blocks of this size and more are never split. Default: no such size.
  std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
  // How much larger than asked a block of max_split_size may be. Default 20 MiB.
  std::int64_t max_non_split_rounding = MiB(20).count;
  // The segment for requests between 1 and 10 MiB, and the page of large expandable segments.
  std::int64_t large_segment_size = MiB(20).count;
  // Sizes are rounded up to 1/n of a power of two, one n for each power from 1 MiB to 32 GiB; 0 =
  // off.
  std::array<std::int64_t, 16> roundup_power2_divisions{};
  // Share of the limit above which old cached blocks are released first; needs a limit. 0 = off.
  double garbage_collection_threshold = 0;
  // Refuse a request that would pass the fraction without trying the device (2.12).
  bool throw_on_cudamalloc_oom = false;
  // Share of device_total the process may reserve; capacity_limit goes before it.
  double per_process_memory_fraction = 1.0;
  PinnedOptions pinned;

  // The most bytes that may be reserved, as set_per_process_memory_fraction sets it. Absent: no
  // limit.
  std::optional<Bytes> capacity_limit;
  // What the device has, and what cudaMalloc could give at the start (the rest is the context's,
  // NCCL's, other processes'). Absent: cudaMalloc never fails.
  std::optional<Bytes> device_total, device_free;

  friend bool operator==(const AllocatorOptions&, const AllocatorOptions&) = default;
};

// The limit on reserved bytes that these options amount to.
std::optional<Bytes> reserved_limit(const AllocatorOptions& options);
// floor(fraction * total), or none where the release takes 1.0 as "no limit".
std::optional<Bytes> fraction_limit(double fraction, Bytes total, const AllocatorRules& rules);

}  // namespace zplan
