// tests/truth/alone.jsonl: runs of stage 3 measured on a card that nothing else used. What they reserve depends on
// which of two things is a fraction of a millisecond earlier, in the program and in the simulation.
#include "io/record_reader.h"
#include "plan/comparison.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("on a card of its own a run reserves what is simulated, phase by phase", "[truth]") {
  std::size_t phases = 0;
  for (const RecordText& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/alone.jsonl")) {
    const Comparison run = compare(read_record(text, catalog(), MapFiles{}), TimeCoefficients{});
    INFO(run.id);
    REQUIRE(run.error.empty());
    for (const auto& p : run.phases) {
      INFO(p.phase << " of step " << p.step);
      CHECK(p.predicted_reserved_peak == p.measured_reserved_peak);
      ++phases;
    }
  }
  CHECK(phases == 52);
}
