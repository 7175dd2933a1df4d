#include "io/replay_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "units/text.h"

namespace zplan {
namespace {

std::string pad(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}
std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}
std::string count(std::size_t n, const char* what) {
  return text_grouped(static_cast<std::int64_t>(n)) + " " + what + (n == 1 ? "" : "s");
}

std::vector<Note> notes_of(const RecordedHistory& history, const Followed& followed) {
  std::vector<Note> notes;
  if (!followed.unknown_frees.empty())
    notes.push_back(
        {Note::Level::Warning, "recording-starts-late",
         count(followed.unknown_frees.size(), "free") +
             " of blocks that were allocated before the recording began",
         "call torch.cuda.memory._record_memory_history() before the first allocation"});
  if (!history.recording.empty_cache && !followed.empty_cache.empty())
    notes.push_back({Note::Level::Info, "empty-cache-inferred",
                     "a snapshot does not record torch.cuda.empty_cache(): " +
                         count(followed.empty_cache.size(), "call") +
                         " inferred from what was released",
                     ""});
  if (!followed.ambiguous.empty())
    notes.push_back({Note::Level::Info, "empty-cache-ambiguous",
                     count(followed.ambiguous.size(), "release") +
                         " may as well be an allocation's own retry: the layout is the same, "
                         "num_alloc_retries is not known",
                     "name the limit with --capacity if there was one"});
  return notes;
}

std::string difference_text(const RecordedHistory& history, const Difference& d) {
  const std::size_t n = history.recording.entries.size();
  if (d.entry >= n)
    return "first difference in the layout at the end\n  expected " + d.expected + "\n  got      " +
           d.got + "\n";
  std::string out = "first difference at entry " +
                    text_grouped(static_cast<std::int64_t>(d.entry)) + " of " +
                    text_grouped(static_cast<std::int64_t>(n)) + "\n  expected " + d.expected +
                    "\n  got      " + d.got + "\n";
  for (std::size_t i = d.entry; i < n; ++i) {  // the request it belongs to
    if (history.recording.entries[i].action != TraceAction::Alloc) continue;
    if (history.context[i] >= 0)
      out += "  asked by " +
             text(history.contexts[static_cast<std::size_t>(history.context[i])], 3) + "\n";
    break;
  }
  return out;
}

}  // namespace

std::vector<PhaseDifference> phase_differences(const RecordedHistory& history,
                                               const Followed& followed) {
  std::vector<PhaseDifference> out;
  const auto first_step =
      std::find_if(history.marks.begin(), history.marks.end(), [](const RecordedMark& m) {
        return m.name.find('.') != std::string::npos;  // s0g0.fwd
      });
  for (std::size_t i = 0; i < std::min(history.marks.size(), followed.phases.size()); ++i) {
    const PhaseFigures &want = history.marks[i].figures, &got = followed.phases[i];
    const auto compare = [&](const char* figure, Bytes recorded, Bytes replayed) {
      if (recorded != replayed) out.push_back({history.marks[i].name, figure, recorded, replayed});
    };
    compare("allocated", want.allocated, got.allocated);
    compare("reserved", want.reserved, got.reserved);
    compare("active", want.active, got.active);
    compare("inactive split", want.inactive_split, got.inactive_split);
    if (history.marks.begin() + static_cast<std::ptrdiff_t>(i) < first_step) continue;
    compare("allocated peak", want.allocated_peak, got.allocated_peak);
    compare("reserved peak", want.reserved_peak, got.reserved_peak);
    compare("active peak", want.active_peak, got.active_peak);
  }
  return out;
}

ReplayReport replay_report(const RecordedHistory& history, const AllocatorOptions& options) {
  ReplayReport report;
  report.followed = follow(history.recording, options);
  report.phases = phase_differences(history, report.followed);
  report.allocated_peak = Bytes{report.followed.statistics.allocated_bytes.peak()};
  report.reserved_peak = Bytes{report.followed.statistics.reserved_bytes.peak()};
  for (const PhaseFigures& p : report.followed.phases) {
    report.allocated_peak = std::max(report.allocated_peak, p.allocated_peak);
    report.reserved_peak = std::max(report.reserved_peak, p.reserved_peak);
  }
  report.notes = notes_of(history, report.followed);
  return report;
}

std::string replay_text(const RecordedHistory& history, const ReplayReport& report) {
  const Followed& f = report.followed;
  std::array<std::size_t, 9> actions{};
  for (const TraceEntry& e : history.recording.entries)
    ++actions[static_cast<std::size_t>(e.action)];
  const auto of = [&](TraceAction a) { return actions[static_cast<std::size_t>(a)]; };
  const std::size_t entries = history.recording.entries.size();
  std::string out = history.file + ": " + text_grouped(static_cast<std::int64_t>(entries)) +
                    (entries == 1 ? " entry, " : " entries, ");
  out += count(of(TraceAction::Alloc), "allocation") + ", " +
         count(of(TraceAction::SegmentAlloc) + of(TraceAction::SegmentMap), "segment") + ", " +
         count(history.streams.size(), "stream");
  if (!history.torch_version.empty()) out += ", torch " + history.torch_version;
  if (!history.alloc_conf.empty()) out += ", " + history.alloc_conf;
  out += "\n";
  if (f.difference) {
    out += difference_text(history, *f.difference);
  } else {
    out += "replayed exactly: every address, segment and free" +
           std::string(history.recording.segments.empty() ? "" : ", and the layout at the end") +
           "\n";
  }
  out += "peaks: " + text(report.allocated_peak) + " allocated, " + text(report.reserved_peak) +
         " reserved\n";
  if (!f.phases.empty()) {
    out += "\n" + pad("phase", 12) + right("allocated", 12) + right("peak", 12) +
           right("reserved", 12) + right("peak", 12) + "\n";
    for (std::size_t i = 0; i < f.phases.size(); ++i)
      out += pad(history.marks[i].name, 12) + right(text(f.phases[i].allocated, 2), 12) +
             right(text(f.phases[i].allocated_peak, 2), 12) +
             right(text(f.phases[i].reserved, 2), 12) +
             right(text(f.phases[i].reserved_peak, 2), 12) + "\n";
  }
  for (const PhaseDifference& d : report.phases)
    out += d.phase + ": " + d.figure + " was recorded as " + text_exact(d.recorded) +
           ", replayed as " + text_exact(d.replayed) + "\n";
  for (const Note& n : report.notes) {
    out += (n.level == Note::Level::Warning ? "warning: " : "note: ") + n.text + "\n";
    if (!n.fix.empty()) out += "  fix: " + n.fix + "\n";
  }
  return out;
}

}  // namespace zplan
