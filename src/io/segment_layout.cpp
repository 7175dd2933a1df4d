#include "io/segment_layout.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace zplan {
namespace {

// Places in a pile: the lowest with room.
class Stack {
 public:
  std::int64_t take(std::int64_t bytes) {
    std::int64_t low = 0;
    for (const auto& [from, size] : taken_) {
      if (from - low >= bytes) break;
      low = from + size;
    }
    taken_[low] = bytes;
    return low;
  }
  void give_back(std::int64_t low) { taken_.erase(low); }

 private:
  std::map<std::int64_t, std::int64_t> taken_;
};

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const RecordedHistory& history) : history_(history) {
    reserve_ranges();
    const auto& entries = history.recording.entries;
    for (std::size_t i = 0; i < entries.size(); ++i) take(i, entries[i]);
    for (const auto& [address, s] : open_segments_) layout.segments.push_back(s);
    for (const auto& [address, b] : open_blocks_) layout.blocks.push_back(b);
    layout.height = std::max<std::int64_t>(layout.height, 1);
  }

  SegmentLayout layout;

 private:
  struct Place {
    std::int64_t bytes, low;
  };

  // Mapped stretches less than 32 GiB apart are of one reservation: reservations span a whole
  // device.
  void reserve_ranges() {
    std::map<std::int64_t, std::int64_t> mapped;
    for (const TraceEntry& e : history_.recording.entries)
      if (e.action == TraceAction::SegmentMap)
        mapped[e.address] = std::max(mapped[e.address], e.address + e.size);
    for (auto i = mapped.begin(); i != mapped.end();) {
      const std::int64_t base = i->first;
      std::int64_t end = i->second;
      for (++i; i != mapped.end() && i->first - end < (std::int64_t{32} << 30); ++i)
        end = std::max(end, i->second);
      place(base, end - base);
    }
  }

  std::int64_t place(std::int64_t address, std::int64_t bytes) {
    const std::int64_t low = stack_.take(bytes);
    places_[address] = {bytes, low};
    layout.height = std::max(layout.height, low + bytes);
    return low;
  }
  std::int64_t low_of(std::int64_t address) const {
    auto p = places_.upper_bound(address);
    if (p == places_.begin()) return -1;
    --p;
    return address < p->first + p->second.bytes ? p->second.low + (address - p->first) : -1;
  }

  void take(std::size_t i, const TraceEntry& e) {
    switch (e.action) {
      case TraceAction::SegmentAlloc:
        open_segments_[e.address] = {
            i, history_.recording.entries.size(), place(e.address, e.size), e.size, e.stream, -1};
        return;
      case TraceAction::SegmentMap:
        open_segments_[e.address] = {
            i, history_.recording.entries.size(), low_of(e.address), e.size, e.stream, -1};
        return;
      case TraceAction::SegmentFree:
        close_segment(i, e);
        return;
      case TraceAction::SegmentUnmap:
        unmap(i, e);
        return;
      case TraceAction::Alloc:
        open_blocks_[e.address] = {i,
                                   history_.recording.entries.size(),
                                   low_of(e.address),
                                   e.size,
                                   e.stream,
                                   history_.context[i]};
        return;
      case TraceAction::FreeCompleted:
        if (const auto b = open_blocks_.find(e.address); b != open_blocks_.end()) {
          b->second.to = i;
          layout.blocks.push_back(b->second);
          open_blocks_.erase(b);
        }
        return;
      case TraceAction::FreeRequested:
      case TraceAction::Oom:
      case TraceAction::Snapshot:
        return;
    }
  }

  void close_segment(std::size_t i, const TraceEntry& e) {
    const auto s = open_segments_.find(e.address);
    if (s == open_segments_.end()) return;
    s->second.to = i;
    layout.segments.push_back(s->second);
    open_segments_.erase(s);
    stack_.give_back(places_[e.address].low);
    places_.erase(e.address);
  }

  // Pages go in other pieces than they came in: cut what overlaps.
  void unmap(std::size_t i, const TraceEntry& e) {
    const std::int64_t end = e.address + e.size;
    for (auto s = open_segments_.begin(); s != open_segments_.end();) {
      const std::int64_t from = s->first, to = from + s->second.bytes;
      if (to <= e.address || from >= end) {
        ++s;
        continue;
      }
      const Rectangle whole = s->second;
      s = open_segments_.erase(s);
      Rectangle gone = whole;
      gone.low = low_of(std::max(from, e.address));
      gone.bytes = std::min(to, end) - std::max(from, e.address);
      gone.to = i;
      layout.segments.push_back(gone);
      const auto keep = [&](std::int64_t a, std::int64_t b) {
        if (a >= b) return;
        Rectangle part = whole;
        part.low = low_of(a);
        part.bytes = b - a;
        open_segments_[a] = part;
      };
      keep(from, e.address);
      keep(end, to);
    }
  }

  const RecordedHistory& history_;
  Stack stack_;
  std::map<std::int64_t, Place> places_;
  std::map<std::int64_t, Rectangle> open_segments_, open_blocks_;
};

}  // namespace

SegmentLayout segment_layout(const RecordedHistory& history) {
  return LayoutBuilder(history).layout;
}

}  // namespace zplan
