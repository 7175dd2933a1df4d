// Composed peaks of the runs that were measured. docs/memory-model.md#composed-peaks
#include "step/composed_peak.h"

#include <string>

#include "io/record_reader.h"
#include "step/simulation.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("the composed peak of every measured run is the simulated one, with expandable segments", "[truth]") {
  const DiskFiles files;
  PeakComposer composer;
  int composed = 0, declined = 0;
  for (const char* name : {"runs.jsonl", "measured.jsonl"}) {
    for (const auto& text : record_texts(files, std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/" + name)) {
      Run run = read_record(text, catalog(), files).run;
      run.capacity_limit.reset();
      run.alloc_conf = "expandable_segments:True";
      run.versions.switches.init_resets_peaks = false;  // what torch says after a reset is no peak
      INFO(text.where);
      if (PeakComposer::unsupported(run)) {
        CHECK(run.ds.zero.zero_hpz_partition_size > 1);
        ++declined;
        continue;
      }
      const auto peak = composer.allocated(run);
      const auto simulated = simulate(run, Detail::Figures);
      REQUIRE(peak);
      CHECK(peak->bytes == simulated.peak.allocated);
      REQUIRE(peak->phases.size() == simulated.phases.size());
      for (std::size_t p = 0; p < peak->phases.size(); ++p) {
        CHECK(peak->phases[p] == simulated.phases[p].figures.allocated_peak);
      }
      ++composed;
    }
  }
  CHECK(composed > 150);
  CHECK(declined < 10);
}
