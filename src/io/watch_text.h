// What `zplan watch` prints: a table that is drawn again, plain lines, or JSON lines (zplan.watch/1).
// docs/watching.md
#pragma once

#include <string>

#include "io/report.h"
#include "plan/watch.h"

namespace zplan {

// "Qwen3-8B, ZeRO-3, ...: 38.0 GiB a GPU predicted (36.4 for torch's allocator + 1.6 outside it) of 39.4 GiB".
std::string watch_heading(const Prediction& prediction);
// Heading, one row a GPU, and every warning so far. `clock`: the time to show, "14:03:11".
std::string watch_table(const Watch& watch, const std::string& clock, const TextStyle& style);
// One line for all GPUs of the job: "GPU 0 31.2 GiB (82 % of predicted), GPU 1 ...". Warnings are not in it.
std::string watch_line(const Watch& watch);
// "warning: ... Fix: ...".
std::string warning_line(const Note& warning);
// One object in one line, with this sample's new warnings. `time`: seconds since 1970.
std::string watch_json_line(const Watch& watch, double time);

}  // namespace zplan
