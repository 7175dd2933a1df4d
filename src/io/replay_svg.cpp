#include "io/replay_svg.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <vector>

#include "allocator/address_space.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr double kWidth = 1400, kLeft = 90, kTop = 40, kCurves = 260, kGap = 50, kMap = 620,
                 kBottom = 40;

std::string number(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f", x);
  return out;
}
std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// A stretch of memory over a stretch of events.
struct Rectangle {
  std::size_t from = 0, to = 0;
  std::int64_t low = 0, bytes = 0;
  StreamId stream = 0;
  std::int32_t context = -1;
};

// Where in the picture memory lies: segments stack from the bottom, each where there is room while
// it lives. An expandable range keeps its place for all it ever maps.
class Layout {
 public:
  explicit Layout(const RecordedHistory& history) : history_(history) {
    reserve_ranges();
    const auto& entries = history.recording.entries;
    for (std::size_t i = 0; i < entries.size(); ++i) take(i, entries[i]);
    for (const auto& [address, s] : open_segments_) segments.push_back(s);
    for (const auto& [address, b] : open_blocks_) blocks.push_back(b);
    height = std::max<std::int64_t>(height, 1);
  }

  std::vector<Rectangle> segments, blocks;
  std::int64_t height = 0;

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
    const std::int64_t low = stack_.take(bytes) - kStackBase;
    places_[address] = {bytes, low};
    height = std::max(height, low + bytes);
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
          blocks.push_back(b->second);
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
    segments.push_back(s->second);
    open_segments_.erase(s);
    stack_.give_back(places_[e.address].low + kStackBase, e.size);
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
      segments.push_back(gone);
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

  static constexpr std::int64_t kStackBase = std::int64_t{1} << 32;  // where an AddressSpace begins
  const RecordedHistory& history_;
  AddressSpace stack_;
  std::map<std::int64_t, Place> places_;
  std::map<std::int64_t, Rectangle> open_segments_, open_blocks_;
};

// A curve's greatest value in each of so many equal stretches of events.
struct Curves {
  std::vector<std::int64_t> allocated, reserved;
  std::int64_t highest = 1;
};

Curves curves_of(const RecordedHistory& history, std::size_t stretches) {
  const auto& entries = history.recording.entries;
  Curves c;
  c.allocated.resize(stretches);
  c.reserved.resize(stretches);
  std::int64_t allocated = 0, reserved = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TraceEntry& e = entries[i];
    const std::int64_t bytes = round_up(std::max<std::int64_t>(e.size, 1), 512);
    if (e.action == TraceAction::Alloc) allocated += bytes;
    if (e.action == TraceAction::FreeRequested) allocated -= bytes;
    if (e.action == TraceAction::SegmentAlloc || e.action == TraceAction::SegmentMap)
      reserved += e.size;
    if (e.action == TraceAction::SegmentFree || e.action == TraceAction::SegmentUnmap)
      reserved -= e.size;
    const std::size_t at = i * stretches / entries.size();
    c.allocated[at] = std::max(c.allocated[at], allocated);
    c.reserved[at] = std::max(c.reserved[at], reserved);
    c.highest = std::max(c.highest, reserved);
  }
  return c;
}

class Picture {
 public:
  explicit Picture(const RecordedHistory& history)
      : history_(history), events_(std::max<std::size_t>(history.recording.entries.size(), 1)) {}

  std::string draw() {
    const double height = kTop + kCurves + kGap + kMap + kBottom;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " +
           number(height) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"#ffffff\"/>\n";
    label(kLeft, 20,
          history_.file + ": " + text_grouped(static_cast<std::int64_t>(events_)) + " events");
    curves();
    map();
    phases();
    return out_ + "</svg>\n";
  }

 private:
  double x(std::size_t event) const {
    return kLeft +
           (kWidth - kLeft - 20) * static_cast<double>(event) / static_cast<double>(events_);
  }
  void label(double at_x, double at_y, const std::string& text, const char* anchor = "start") {
    out_ += "<text x=\"" + number(at_x) + "\" y=\"" + number(at_y) + "\" text-anchor=\"" + anchor +
            "\" fill=\"#333333\">" + escape(text) + "</text>\n";
  }
  void rectangle(const Rectangle& r, double bottom, double per_byte, const std::string& colour,
                 const std::string& title) {
    out_ += "<rect x=\"" + number(x(r.from)) + "\" y=\"" +
            number(bottom - per_byte * static_cast<double>(r.low + r.bytes)) + "\" width=\"" +
            number(std::max(0.3, x(r.to) - x(r.from))) + "\" height=\"" +
            number(per_byte * static_cast<double>(r.bytes)) + "\" fill=\"" + colour + "\">" +
            (title.empty() ? "" : "<title>" + escape(title) + "</title>") + "</rect>\n";
  }

  void curves() {
    const std::size_t stretches = std::min<std::size_t>(events_, 1200);
    const Curves c = curves_of(history_, stretches);
    const double bottom = kTop + kCurves, per_byte = kCurves / static_cast<double>(c.highest);
    const auto area = [&](const std::vector<std::int64_t>& values, const char* colour) {
      out_ +=
          "<path fill=\"" + std::string(colour) + "\" d=\"M" + number(kLeft) + " " + number(bottom);
      for (std::size_t i = 0; i < stretches; ++i) {
        const std::string y = number(bottom - per_byte * static_cast<double>(values[i]));
        out_ += "L" + number(x(i * events_ / stretches)) + " " + y + "L" +
                number(x((i + 1) * events_ / stretches)) + " " + y;
      }
      out_ += "L" + number(x(events_)) + " " + number(bottom) + "Z\"/>\n";
    };
    area(c.reserved, "#d9d9d9");
    area(c.allocated, "#4c78a8");
    label(kLeft - 6, kTop + 10, text(Bytes{c.highest}), "end");
    label(kLeft - 6, bottom, "0", "end");
    label(kLeft, bottom + 16, "reserved (grey) and allocated (blue) over events");
  }

  void map() {
    const Layout layout(history_);
    const double bottom = kTop + kCurves + kGap + kMap,
                 per_byte = kMap / static_cast<double>(layout.height);
    for (const Rectangle& s : layout.segments)
      rectangle(s, bottom, per_byte, "#e6e6e6", "segment of " + text(Bytes{s.bytes}));
    static const char* const colours[] = {"#4c78a8", "#f58518", "#54a24b",
                                          "#b279a2", "#e45756", "#72b7b2"};
    const auto smallest = static_cast<std::int64_t>(0.4 / per_byte);
    for (const Rectangle& b : layout.blocks) {
      if (b.bytes < smallest || b.low < 0) continue;
      std::string title = text(Bytes{b.bytes}) + " on stream " + std::to_string(b.stream);
      if (b.context >= 0)
        title += ": " + text(history_.contexts[static_cast<std::size_t>(b.context)]);
      rectangle(b, bottom, per_byte, colours[b.stream % std::size(colours)], title);
    }
    label(kLeft - 6, bottom - kMap + 10, text(Bytes{layout.height}), "end");
    label(kLeft, bottom + 16,
          "segments (grey), blocks by stream, holes grey; blocks below " + text(Bytes{smallest}) +
              " are not drawn");
  }

  void phases() {
    double last = -100;
    for (const RecordedMark& m : history_.marks) {
      const double at = x(m.entry);
      out_ += "<path stroke=\"#999999\" stroke-dasharray=\"3 3\" d=\"M" + number(at) + " " +
              number(kTop) + "V" + number(kTop + kCurves + kGap + kMap) + "\"/>\n";
      if (at - last < 60) continue;
      label(at - 3, kTop - 4, m.name, "end");
      last = at;
    }
  }

  const RecordedHistory& history_;
  std::size_t events_;
  std::string out_;
};

}  // namespace

std::string replay_svg(const RecordedHistory& history) { return Picture(history).draw(); }

}  // namespace zplan
