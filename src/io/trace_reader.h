// Recorded allocator histories: zplan's compact form and torch.cuda.memory._snapshot() dumped as
// JSON, either gzipped. docs/allocator.md#recording says how to make one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/follow.h"
#include "allocator/history.h"

namespace zplan {

// Who asked for an allocation.
struct AllocationContext {
  std::vector<std::string> operators;  // torch operators, innermost first
  std::string node;                    // autograd node; empty in a forward
  std::vector<std::string>
      frames;  // Python frames, innermost first: "torch/nn/modules/linear.py:134 forward"
  friend bool operator==(const AllocationContext&, const AllocationContext&) = default;
};
// "aten::mm < MmBackward0 | torch/nn/modules/linear.py:134 forward"
std::string text(const AllocationContext& context, std::size_t frames = 1);

// The end of a phase, with what torch reported there.
struct RecordedMark {
  std::string name;       // "s0g0.fwd"
  std::size_t entry = 0;  // the phase ends before this entry of the recording
  PhaseFigures figures;
  std::int64_t host_pinned_bytes = 0;  // torch's host allocator, current
};

struct RecordedHistory {
  std::string file;
  bool snapshot = false;                                 // from _snapshot(); else zplan's form
  std::string case_json, ds_config_json, versions_json;  // as recorded; empty in a snapshot
  std::string torch_version;                             // "2.11.0+cu130", where recorded
  std::string alloc_conf;                                // PYTORCH_CUDA_ALLOC_CONF
  Recording recording;
  std::vector<std::int64_t> times_us;  // one an entry
  std::vector<std::int32_t> context;   // one an entry: into contexts, or -1
  std::vector<AllocationContext> contexts;
  std::vector<std::uint64_t> streams;  // the handles, by StreamId; ascending, 0 first
  std::vector<RecordedMark> marks;     // at the same entries as recording.marks
};

struct TraceReadOptions {
  std::optional<std::size_t> device;  // of a snapshot; absent: the one with the most entries
  bool contexts = true;               // false: skip who allocated, for speed
};
// Throws InputError that names the file and what is wrong with it.
RecordedHistory read_trace(const std::string& path, const TraceReadOptions& options = {});
// The same from text already in memory; `file` is named in errors.
RecordedHistory parse_trace(const std::string& text, const std::string& file,
                            const TraceReadOptions& options = {});

// The history as events to replay. empty_cache() stands where it was recorded, or else before every
// release that no request of the recording explains.
struct HistoryEvents {
  std::vector<Event> events;
  std::vector<std::size_t>
      entry;  // one an event: the recorded entry it comes from (or stands before)
};
HistoryEvents history_events(const RecordedHistory& history);

}  // namespace zplan
