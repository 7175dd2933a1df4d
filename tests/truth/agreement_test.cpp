// Simulated trainings held against recorded histories, event by event: every allocation and free of the training
// phases by bytes, stream and order. Tolerances are in agreement.json; the table is printed with -s or on failure.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "io/agreement_report.h"
#include "io/record_reader.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("simulated events are the recorded events", "[truth]") {
  const std::string folder = ZPLAN_SOURCE_DIR "/tests/truth/";
  std::map<std::string, RecordText> records;
  for (const char* file : {"traced.jsonl", "measured.jsonl"}) {
    for (const auto& text : record_texts(DiskFiles(), folder + file)) records.emplace(record_id(text), text);
  }
  const auto tolerances = nlohmann::json::parse(std::ifstream(folder + "agreement.json"));
  std::size_t reserved_equal = 0;
  std::string table = "trace  events agree   reserved peak: simulated - recorded\n";
  for (const auto& [id, tolerance] : tolerances.at("least_agreement").items()) {
    INFO(id);
    const auto history = read_trace(folder + "traces/" + id + ".json.gz");
    AgreementReport report;
    try {
      report = agreement_report(history, read_record(records.at(id), catalog(), MapFiles{}).run);
    } catch (const std::exception& e) {
      table += id + "  " + e.what() + "\n";
      CHECK(tolerance.get<double>() == 0.0);
      continue;
    }
    const auto difference = report.simulated_reserved_peak - report.recorded_reserved_peak;
    reserved_equal += difference.count == 0;
    char line[96];
    std::snprintf(line, sizeof line, "%-6s %10.2f %%   %+.2f %%\n", id.c_str(), 100 * report.training(),
                  100.0 * static_cast<double>(difference.count) / static_cast<double>(report.recorded_reserved_peak.count));
    table += line;
    CHECK(report.training() >= tolerance.get<double>());
  }
  table += "reserved peak equal in " + std::to_string(reserved_equal) + "\n";
  INFO(table);
  std::fputs(table.c_str(), stdout);
  CHECK(reserved_equal >= tolerances.at("least_reserved_equal").get<std::size_t>());
}
