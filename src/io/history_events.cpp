// From a recording to the events a replay takes.
#include <algorithm>
#include <unordered_map>

#include "io/trace_reader.h"

namespace zplan {
namespace {

bool releases(const TraceEntry& e) {
  return e.action == TraceAction::SegmentFree || e.action == TraceAction::SegmentUnmap;
}

// Before which entries empty_cache() must have run: the start of each release. A request that
// releases ends in the same layout, so it is not told apart here.
std::vector<std::size_t> inferred_flushes(const std::vector<TraceEntry>& entries) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (releases(entries[i]) && (i == 0 || !releases(entries[i - 1]))) out.push_back(i);
  return out;
}

}  // namespace

std::string text(const AllocationContext& c, std::size_t frames) {
  std::string out = c.operators.empty() ? "-" : c.operators.front();
  if (!c.node.empty()) out += " < " + c.node;
  for (std::size_t i = 0; i < std::min(frames, c.frames.size()); ++i)
    out += (i == 0 ? " | " : " <- ") + c.frames[i];
  return out;
}

HistoryEvents history_events(const RecordedHistory& history) {
  const auto& entries = history.recording.entries;
  const auto flushes =
      history.recording.empty_cache ? *history.recording.empty_cache : inferred_flushes(entries);
  HistoryEvents out;
  std::unordered_map<std::int64_t, BlockId> live;  // by address; also of frees not yet completed
  std::size_t flush = 0, mark = 0;
  BlockId next = 0;
  const auto emit = [&](Action action, std::size_t entry, StreamId stream, BlockId block,
                        std::int64_t bytes) {
    out.events.push_back({action, stream, block, bytes});
    out.entry.push_back(entry);
  };
  const std::vector<MarkAt>& marks = history.recording.marks;
  const auto due = [&](std::size_t entry) {
    for (;;) {
      const bool mark_due = mark < marks.size() && marks[mark].entry <= entry;
      const std::size_t flushes_first =
          mark_due && history.recording.empty_cache ? marks[mark].empty_caches : 0;
      if (mark_due && flushes_first <= flush) {
        emit(Action::Mark, entry, 0, static_cast<BlockId>(mark++), 0);
      } else if (flush < flushes.size() && (mark_due || flushes[flush] <= entry)) {
        emit(Action::EmptyCache, entry, 0, 0, 0);
        ++flush;
      } else {
        return;
      }
    }
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    due(i);
    const TraceEntry& e = entries[i];
    const auto found = live.find(e.address);
    if (e.action == TraceAction::Alloc || e.action == TraceAction::Oom) {
      if (e.action == TraceAction::Alloc) live[e.address] = next;
      emit(Action::Allocate, i, e.stream, next++, e.size);
    } else if (e.action == TraceAction::FreeRequested && found != live.end()) {
      const bool at_once = i + 1 < entries.size() &&
                           entries[i + 1].action == TraceAction::FreeCompleted &&
                           entries[i + 1].address == e.address;
      emit(at_once ? Action::Free : Action::FreeRequested, i, e.stream, found->second, 0);
      if (at_once) live.erase(found), ++i;
    } else if (e.action == TraceAction::FreeCompleted && found != live.end()) {
      emit(Action::FreeCompleted, i, e.stream, found->second, 0);
      live.erase(found);
    }
  }
  due(entries.size());
  return out;
}

}  // namespace zplan
