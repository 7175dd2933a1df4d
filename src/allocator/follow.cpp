#include "allocator/follow.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <unordered_map>

#include "allocator/replay.h"

namespace zplan {
namespace {

const char* name(TraceAction action) {
  switch (action) {
    case TraceAction::Alloc:
      return "alloc";
    case TraceAction::FreeRequested:
      return "free_requested";
    case TraceAction::FreeCompleted:
      return "free_completed";
    case TraceAction::SegmentAlloc:
      return "segment_alloc";
    case TraceAction::SegmentFree:
      return "segment_free";
    case TraceAction::SegmentMap:
      return "segment_map";
    case TraceAction::SegmentUnmap:
      return "segment_unmap";
    case TraceAction::Oom:
      return "oom";
    case TraceAction::Snapshot:
      return "snapshot";
  }
  return "";
}

bool releases(const TraceEntry& e) {
  return e.action == TraceAction::SegmentFree || e.action == TraceAction::SegmentUnmap;
}
bool obtains(const TraceEntry& e) {
  return e.action == TraceAction::SegmentAlloc || e.action == TraceAction::SegmentMap;
}
bool ends_request(const TraceEntry& e) {
  return e.action == TraceAction::Alloc || e.action == TraceAction::Oom;
}

class Follower {
 public:
  Follower(const Recording& recording, const AllocatorOptions& options)
      : recording_(recording), entries_(recording.entries), allocator_(options) {
    allocator_.write_trace(&written_);
    allocator_.use_device([this](std::int64_t) { return next_obtains(); },
                          [this](std::int64_t) { return next_address(); });
  }

  Followed run() {
    while (!result_.difference && at_ < entries_.size()) {
      marks_and_flushes();
      if (result_.difference || at_ >= entries_.size()) break;
      step();
    }
    if (!result_.difference) marks_and_flushes();
    if (!result_.difference) compare_layout();
    result_.checked = at_;
    result_.statistics = allocator_.statistics();
    return std::move(result_);
  }

 private:
  const TraceEntry& entry(std::size_t i) const { return entries_[i]; }

  // The recorded entry that the allocator's next line must equal.
  std::size_t cursor() const { return at_ + written_.size(); }
  bool next_obtains() const { return cursor() < entries_.size() && obtains(entry(cursor())); }
  std::int64_t next_address() const { return next_obtains() ? entry(cursor()).address : 0; }

  void marks_and_flushes() {
    const std::size_t recorded = recording_.empty_cache ? recording_.empty_cache->size() : 0;
    for (;;) {
      const bool mark_due = mark_ < recording_.marks.size() && recording_.marks[mark_].entry <= at_;
      if (mark_due && recording_.marks[mark_].empty_caches <= flush_) {
        result_.phases.push_back(figures(allocator_.statistics()));
        allocator_.statistics().reset_peak();
        mark_ += 1;
      } else if (flush_ < recorded && (mark_due || (*recording_.empty_cache)[flush_] <= at_)) {
        flush_ += 1;
        empty_cache();
      } else {
        return;
      }
    }
  }

  void step() {
    const TraceEntry& e = entry(at_);
    switch (e.action) {
      case TraceAction::FreeRequested:
        return free_requested(e);
      case TraceAction::FreeCompleted:
        return completions();
      case TraceAction::SegmentFree:
      case TraceAction::SegmentUnmap:
        return release();
      case TraceAction::Snapshot:
        at_ += 1;
        return;
      case TraceAction::Alloc:
      case TraceAction::Oom:
      case TraceAction::SegmentAlloc:
      case TraceAction::SegmentMap:
        return request();
    }
  }

  void free_requested(const TraceEntry& e) {
    const auto found = live_.find(e.address);
    if (found == live_.end()) return skip_unknown();
    const bool at_once = at_ + 1 < entries_.size() &&
                         entry(at_ + 1).action == TraceAction::FreeCompleted &&
                         entry(at_ + 1).address == e.address;
    if (at_once) {
      allocator_.free(found->second);
    } else {
      allocator_.free_requested(found->second);
    }
    live_.erase(found);
    compare();
  }

  void skip_unknown() {
    result_.unknown_frees.push_back(at_);
    at_ += 1;
  }

  // Completions belong to the next request, which may have synchronised to get them. Then the
  // allocator must do so too; else each is one that the request saw passed.
  void completions() {
    std::size_t end = at_;
    while (end < entries_.size() && entry(end).action == TraceAction::FreeCompleted) ++end;
    const bool released = end < entries_.size() && releases(entry(end));
    const bool all = end - at_ == allocator_.pending().size();
    if (released && all && !releases_without_waiting()) return release();
    const std::int64_t address = entry(at_).address;
    for (const BlockIndex index : allocator_.pending())
      if (allocator_.block(index).address == address) {
        allocator_.free_completed(index);
        return compare();
      }
    skip_unknown();
  }

  bool releases_without_waiting() const {
    const AllocatorOptions& o = allocator_.options();
    return o.garbage_collection_threshold > 0 ||
           o.max_split_size != std::numeric_limits<std::int64_t>::max();
  }

  // Something is released: by the request that follows, if it had no other way, or by
  // empty_cache().
  void release() {
    std::size_t end = at_;
    while (end < entries_.size() &&
           (releases(entry(end)) || entry(end).action == TraceAction::FreeCompleted))
      ++end;
    std::size_t request_end = end;
    while (request_end < entries_.size() && obtains(entry(request_end))) ++request_end;
    const bool by_request =
        end < entries_.size() && request_end < entries_.size() &&
        ends_request(entry(request_end)) &&
        (request_end > end || entry(end).action == TraceAction::Oom) &&
        !allocator_.would_fit(entry(request_end).size, entry(request_end).stream);
    if (!by_request) return empty_cache();
    if (entry(request_end).action == TraceAction::Oom || recording_.empty_cache ||
        must_have_retried(entry(request_end)))
      return request();
    result_.ambiguous.push_back(at_);
    empty_cache();
  }

  // The limit refuses the request, or it would have been served after a flush without new memory.
  bool must_have_retried(const TraceEntry& request) const {
    const AllocatorOptions& o = allocator_.options();
    const std::int64_t size = round_size(request.size, o);
    const auto limit = reserved_limit(o);
    const std::int64_t reserved = allocator_.statistics().reserved_bytes.current();
    if (limit && reserved + segment_size(size, o) > limit->count) return true;
    CachingAllocator flushed = allocator_;
    flushed.write_trace(nullptr);
    flushed.empty_cache();
    return flushed.would_fit(request.size, request.stream);
  }

  void empty_cache() {
    result_.empty_cache.push_back(at_);
    allocator_.empty_cache();
    compare();
  }

  void request() {
    std::size_t end = at_;
    while (end < entries_.size() && !ends_request(entry(end))) ++end;
    if (end == entries_.size()) {
      result_.difference = {at_, text(entry(at_)), "no request that would explain it"};
      return;
    }
    const BlockIndex index = allocator_.allocate(entry(end).size, entry(end).stream);
    if (index != kNoBlock) live_[allocator_.block(index).address] = index;
    compare();
  }

  // The lines just written against the recorded ones. Within a run of completions the order is that
  // of a hash table of streams: any order will do. The device's free bytes are not ours to know.
  void compare() {
    for (std::size_t i = 0; i < written_.size(); ++i) {
      if (at_ + i >= entries_.size()) {
        result_.difference = {at_ + i, "the end of the recording", text(written_[i])};
        break;
      }
      const TraceEntry& expected = entry(at_ + i);
      TraceEntry got = written_[i];
      if (got.action == TraceAction::Oom) got.address = expected.address;
      if (got.action == TraceAction::FreeCompleted && got.action == expected.action) {
        const auto match =
            std::find(written_.begin() + static_cast<std::ptrdiff_t>(i), written_.end(), expected);
        if (match != written_.end()) {
          std::iter_swap(written_.begin() + static_cast<std::ptrdiff_t>(i), match);
          continue;
        }
      }
      if (got == expected) continue;
      result_.difference = {at_ + i, text(expected), text(got)};
      at_ += i;
      written_.clear();
      return;
    }
    at_ += written_.size();
    written_.clear();
  }

  void compare_layout() {
    if (recording_.segments.empty()) return;
    const auto got = allocator_.snapshot();
    for (std::size_t i = 0; i < std::max(got.size(), recording_.segments.size()); ++i) {
      const auto describe = [&](const std::vector<SegmentView>& list) {
        return i < list.size() ? text(list[i]) : std::string("no further segment");
      };
      const std::string expected = describe(recording_.segments), ours = describe(got);
      if (expected == ours) continue;
      result_.difference = {entries_.size(), expected, ours};
      return;
    }
  }

  // What is not live has no requested bytes worth comparing: they are those of an earlier use.
  static std::string text(const SegmentView& s) {
    char line[96];
    std::snprintf(line, sizeof line,
                  "segment of %" PRId64 " bytes at 0x%" PRIx64 " on stream %d:", s.size,
                  static_cast<std::uint64_t>(s.address), s.stream);
    std::string out = line;
    for (const BlockView& b : s.blocks) {
      out += ' ' + std::to_string(b.size);
      if (b.state == BlockState::Allocated) out += " live (" + std::to_string(b.requested) + ")";
      if (b.state == BlockState::Pending) out += " pending (" + std::to_string(b.requested) + ")";
      if (b.state == BlockState::Free) out += " free";
    }
    return out;
  }
  static std::string text(const TraceEntry& e) { return zplan::text(e); }

  const Recording& recording_;
  std::span<const TraceEntry> entries_;
  CachingAllocator allocator_;
  std::vector<TraceEntry> written_;
  std::unordered_map<std::int64_t, BlockIndex> live_;
  std::size_t at_ = 0, mark_ = 0, flush_ = 0;
  Followed result_;
};

}  // namespace

Followed follow(const Recording& recording, const AllocatorOptions& options) {
  return Follower(recording, options).run();
}

std::string text(const TraceEntry& e) {
  char line[128];
  std::snprintf(line, sizeof line, "%s of %" PRId64 " bytes at 0x%" PRIx64 " on stream %d",
                name(e.action), e.size, static_cast<std::uint64_t>(e.address), e.stream);
  return line;
}

}  // namespace zplan
