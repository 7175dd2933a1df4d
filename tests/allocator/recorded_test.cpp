// Recorded PyTorch histories, reproduced line by line.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "allocator/alloc_conf.h"
#include "allocator/follow.h"
#include "allocator/replay.h"
#include "io/trace_reader.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

std::vector<std::string> recorded() {
  std::vector<std::string> files;
  for (const auto& f : std::filesystem::directory_iterator(ZPLAN_SOURCE_DIR "/tests/truth/traces"))
    files.push_back(f.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

AllocatorOptions options_of(const RecordedHistory& history) {
  return parse_alloc_conf(history.alloc_conf, allocator_rules({2, 11}));
}

// Peaks of the start, of loading and of the init count from different moments in some recordings.
bool peaks_restart_at(const std::string& phase) {
  return phase == "start" || phase == "model" || phase == "engine";
}

}  // namespace

TEST_CASE("112 recorded histories replay with every address, segment and free equal",
          "[allocator]") {
  const std::vector<std::string> files = recorded();
  REQUIRE(files.size() == 124);
  for (const std::string& file : files) {
    INFO(file);
    const RecordedHistory history = read_trace(file);
    const Followed followed = follow(history.recording, options_of(history));
    if (followed.difference)
      FAIL("entry " << followed.difference->entry << ": expected " << followed.difference->expected
                    << ", got " << followed.difference->got);
    CHECK(followed.checked == history.recording.entries.size());
    REQUIRE(followed.phases.size() == history.marks.size());
    for (std::size_t i = 0; i < history.marks.size(); ++i) {
      INFO(history.marks[i].name);
      PhaseFigures expected = history.marks[i].figures, got = followed.phases[i];
      if (peaks_restart_at(history.marks[i].name)) {
        expected.allocated_peak = expected.reserved_peak = expected.active_peak = {};
        got.allocated_peak = got.reserved_peak = got.active_peak = {};
      }
      CHECK(got == expected);
    }
  }
}

TEST_CASE("where empty_cache ran follows from what was released", "[allocator]") {
  std::size_t flushes = 0, ambiguous = 0;
  for (const std::string& file : recorded()) {
    if (std::filesystem::path(file).filename().string().front() != 't') continue;
    INFO(file);
    RecordedHistory history = read_trace(file);
    history.recording.empty_cache.reset();
    const Followed followed = follow(history.recording, options_of(history));
    CHECK_FALSE(followed.difference);
    CHECK(followed.statistics.num_alloc_retries == 0);
    flushes += followed.empty_cache.size();
    ambiguous += followed.ambiguous.size();
  }
  CHECK(flushes == 22);
  CHECK(ambiguous == 1);  // t18: a release right before a request that needs a new segment
}

TEST_CASE("a changed byte in a recording is found where it is", "[allocator]") {
  RecordedHistory history = read_trace(ZPLAN_SOURCE_DIR "/tests/truth/traces/t05.json.gz");
  auto& entries = history.recording.entries;
  SECTION("an address") {
    const auto changed =
        std::find_if(entries.begin() + 5000, entries.end(),
                     [](const TraceEntry& e) { return e.action == TraceAction::Alloc; });
    changed->address += 512;
    const Followed followed = follow(history.recording, options_of(history));
    REQUIRE(followed.difference);
    CHECK(followed.difference->entry == static_cast<std::size_t>(changed - entries.begin()));
    CHECK(followed.difference->expected == text(*changed));
  }
  SECTION("the last layout") {
    history.recording.segments.back().blocks.back().state = BlockState::Pending;
    const Followed followed = follow(history.recording, options_of(history));
    REQUIRE(followed.difference);
    CHECK(followed.difference->entry == entries.size());
  }
  SECTION("an option") {
    AllocatorOptions options = options_of(history);
    options.roundup_power2_divisions.fill(2);
    CHECK(follow(history.recording, options).difference);
  }
}

TEST_CASE("with made-up addresses the recorded bytes are reserved in every phase", "[allocator]") {
  // Among free blocks of one size the lowest address wins, and the driver's addresses are not the made-up ones: in
  // these histories another block is taken, with another remainder.
  const std::set<std::string> other_remainders = {"m172h", "m181h", "n12", "n41", "n63", "n76"};
  for (const std::string& file : recorded()) {
    const bool same_remainders = other_remainders.count(std::filesystem::path(file).stem().stem().string()) == 0;
    const RecordedHistory history = read_trace(file);
    const Replay replayed = replay(history_events(history).events, options_of(history));
    REQUIRE(replayed.phases.size() == history.marks.size());
    for (std::size_t i = 0; i < history.marks.size(); ++i) {
      INFO(file << ", " << history.marks[i].name);
      CHECK(replayed.phases[i].reserved == history.marks[i].figures.reserved);
      if (!same_remainders) continue;
      CHECK(replayed.phases[i].allocated == history.marks[i].figures.allocated);
      CHECK(replayed.phases[i].inactive_split == history.marks[i].figures.inactive_split);
    }
  }
}
