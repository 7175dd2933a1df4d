// tests/truth/random.jsonl: runs that a random generator chose (validate/deepspeed/random_runs.py and, those named m...,
// its forerunner with DeepSpeed 0.16.9, 0.19.6 and 0.19.8), several of them beside each other on a card.
#include <cmath>
#include <cstdio>
#include <vector>

#include "io/record_reader.h"
#include "plan/comparison.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("runs that nobody picked allocate what is simulated", "[truth]") {
  std::vector<Comparison> runs;
  std::size_t exact = 0;
  for (const RecordText& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/random.jsonl")) {
    runs.push_back(compare(read_record(text, catalog(), MapFiles{}), TimeCoefficients{}));
    const Comparison& run = runs.back();
    INFO(run.id);
    CHECK(run.error.empty());
    CHECK(run.outcome_right.value_or(true));
    const auto error = [&](Quantity q) { return run.errors[static_cast<std::size_t>(q)].value_or(0); };
    CHECK(std::abs(error(Quantity::AllocatedPeak)) <= 0.0005);
    exact += error(Quantity::ReservedPeak) == 0;
  }
  const auto summary = summarize(runs);
  const auto& reserved = summary.quantities[static_cast<std::size_t>(Quantity::ReservedPeak)];
  std::printf("random runs: %zu; reserved exact in %zu, mean error %.2f %%, worst %+.1f %% (%s)\n", runs.size(), exact,
              100 * reserved.mean, 100 * reserved.worst, reserved.worst_id.c_str());
  CHECK(runs.size() == 258);
  CHECK(exact >= 215);
  CHECK(reserved.mean <= 0.004);
  CHECK(summary.quantities[static_cast<std::size_t>(Quantity::PhaseAllocatedPeak)].mean <= 0.0005);
}
