#include "tests/time/timed_runs.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/record_reader.h"
#include "tests/io/catalog.h"

namespace zplan::testing {

TimedRuns timed_runs() {
  TimedRuns all;
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/time/tolerances.json");
  all.tolerances = nlohmann::json::parse(file).at("timed_runs").get<std::map<std::string, double>>();
  for (const RecordText& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/runs.jsonl")) {
    const Record record = read_record(text, catalog(), MapFiles{});
    if (record.run.rank != 0 || record.loop_step_seconds.empty() || !record.machine) continue;
    TimedRun t{record.id, record.run, *record.machine};
    for (const auto& p : record.phases) {  // the last of each kind: third step, last micro-step
      const double seconds = p.seconds.value_or(Seconds{}).count;
      if (p.phase == "forward") t.forward_s = seconds;
      if (p.phase == "backward") t.backward_s = seconds;
      if (p.phase == "step") t.step_s = seconds;
    }
    t.loop_s = record.loop_step_seconds.back().count;
    all.runs.push_back(std::move(t));
  }
  return all;
}

}  // namespace zplan::testing
