// What a replayed history says, for people: whether it was reproduced, and what memory did.
#pragma once

#include <string>
#include <vector>

#include "allocator/follow.h"
#include "allocator/options.h"
#include "io/trace_reader.h"
#include "spec/note.h"

namespace zplan {

// A recorded figure of a phase that the replay does not give. Peaks of the first phases may have
// been counted from another moment by the program that recorded: they are not compared.
struct PhaseDifference {
  std::string phase, figure;
  Bytes recorded, replayed;
};
std::vector<PhaseDifference> phase_differences(const RecordedHistory& history,
                                               const Followed& followed);

struct ReplayReport {
  Followed followed;
  std::vector<PhaseDifference> phases;
  Bytes allocated_peak, reserved_peak;
  std::vector<Note> notes;  // what could not be known of the recording
  bool equal() const { return !followed.difference && phases.empty(); }
};
ReplayReport replay_report(const RecordedHistory& history, const AllocatorOptions& options);

std::string replay_text(const RecordedHistory& history, const ReplayReport& report);

}  // namespace zplan
