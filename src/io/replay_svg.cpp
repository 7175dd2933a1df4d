#include "io/replay_svg.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

#include "io/segment_layout.h"
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
            number(per_byte * static_cast<double>(r.bytes)) +
            "\" stroke=\"#ffffff\" stroke-width=\"0.2\" fill=\"" + colour + "\">" +
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
    const SegmentLayout layout = segment_layout(history_);
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
