#include "tests/time/timed_runs.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/record_reader.h"
#include "tests/io/catalog.h"

namespace zplan::testing {

std::vector<Record> truth_records() {
  std::vector<Record> records;
  for (const RecordText& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/runs.jsonl")) {
    records.push_back(read_record(text, catalog(), MapFiles{}));
  }
  return records;
}

std::vector<TimedRun> complete_runs() {
  std::vector<TimedRun> runs;
  for (const TimedRun& t : zplan::timed_runs(truth_records()).runs) {
    if (t.forward_s && t.backward_s && t.step_s && t.loop_s) runs.push_back(t);
  }
  return runs;
}

std::map<std::string, double> timed_run_tolerances() {
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/time/tolerances.json");
  return nlohmann::json::parse(file).at("timed_runs").get<std::map<std::string, double>>();
}

}  // namespace zplan::testing
