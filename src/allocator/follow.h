// A recorded history checked line by line: the allocator is driven by what the program asked, its
// own trace must equal the recorded one. Segments lie where the recording says, and the device
// refuses where the recording shows it did; everything else is decided by the rules.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/history.h"
#include "allocator/options.h"
#include "allocator/trace_entry.h"

namespace zplan {

// The end of a phase: before an entry, after so many of the recorded empty_cache() calls.
struct MarkAt {
  std::size_t entry = 0, empty_caches = 0;
};

struct Recording {
  std::vector<TraceEntry> entries;
  // Before which entries torch.cuda.empty_cache() ran; absent: to be inferred from what was
  // released.
  std::optional<std::vector<std::size_t>> empty_cache;
  std::vector<MarkAt> marks;
  std::vector<SegmentView> segments;  // the layout at the end; empty: not recorded
};

// The first entry that the rules do not reproduce; entries.size() for the layout at the end.
struct Difference {
  std::size_t entry = 0;
  std::string expected, got;
  friend bool operator==(const Difference&, const Difference&) = default;
};

struct Followed {
  std::optional<Difference> difference;
  std::size_t checked = 0;  // entries that agreed
  std::vector<std::size_t>
      empty_cache;  // before which entries it was applied, as given or inferred
  // Releases that empty_cache() and the next request's own retry would leave alike: taken as the
  // former.
  std::vector<std::size_t> ambiguous;
  std::vector<std::size_t> unknown_frees;  // of blocks from before the recording
  std::vector<PhaseFigures> phases;        // one a mark
  Statistics statistics;                   // at the end
};
Followed follow(const Recording& recording, const AllocatorOptions& options);

// "alloc 1,024 bytes at 0x7f0000000000 on stream 0".
std::string text(const TraceEntry& entry);

}  // namespace zplan
