// Every measured run, simulated from its own inputs: the table, and tolerances that are data.
#include <iostream>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/record_reader.h"
#include "io/report_text.h"
#include "plan/comparison.h"
#include "plan/parallel.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

namespace {

std::vector<Tolerance> tolerances(const DiskFiles& files) {
  const std::string path = std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/tolerances.json";
  const auto json = parse_json(files.read(path), path);
  const JsonObject root(json, path);
  root.ignore("source");
  std::vector<Tolerance> out;
  for (std::size_t q = 0; q < kQuantities; ++q) {
    Tolerance t;
    t.quantity = static_cast<Quantity>(q);
    if (root.has("mean")) t.mean = root.object("mean").maybe_number(kQuantityNames[q]);
    if (root.has("worst")) t.worst = root.object("worst").maybe_number(kQuantityNames[q]);
    if (t.mean || t.worst) out.push_back(t);
  }
  return out;
}

}  // namespace

TEST_CASE("predicted against measured, over every run of DeepSpeed", "[truth]") {
  const DiskFiles files;
  const auto texts = record_texts(files, std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/runs.jsonl");
  REQUIRE(texts.size() >= 90);
  ComparisonReport report;
  report.runs.resize(texts.size());
  in_parallel(texts.size(), 2, [&](std::size_t i) {
    try {
      report.runs[i] = compare(read_record(texts[i], catalog(), files), TimeCoefficients{});
    } catch (const std::exception& e) {
      report.runs[i].id = texts[i].where;
      report.runs[i].error = e.what();
    }
  });
  report.summary = summarize(report.runs);
  report.exceeded = exceeded(report.summary, tolerances(files));
  std::cout << comparison_text(report, {});
  for (const auto& e : report.exceeded) FAIL_CHECK(e);
  for (const auto& c : report.runs) {
    INFO(c.id << ": " << c.error);
    CHECK(c.error.empty());
  }
}
