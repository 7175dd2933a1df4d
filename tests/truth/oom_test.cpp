// The measured runs that ran out of memory: their messages, and the phase they ended in.
#include <nlohmann/json.hpp>

#include "io/oom_message.h"
#include "io/record_reader.h"
#include "plan/oom.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

namespace {

// The phase after the last one that was completed.
std::pair<std::int64_t, Phase> ended_in(const Record& record) {
  const auto& last = record.phases[record.phases.size() - 2];  // the last one is "oom"
  if (last.phase == "forward") return {last.step, Phase::Backward};
  if (last.phase == "backward") return {last.step, Phase::Step};
  if (last.phase == "step") return {last.step + 1, Phase::Forward};
  return {0, Phase::Forward};
}

}  // namespace

TEST_CASE("the messages of the measured runs that ran out are explained by a request of the phase they ended in",
          "[truth]") {
  const DiskFiles files;
  int messages = 0;
  for (const char* name : {"runs.jsonl", "measured.jsonl"}) {
    for (const auto& text : record_texts(files, std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/" + name)) {
      if (text.text.find("\"oom_message\"") == std::string::npos) continue;
      const Record record = read_record(text, catalog(), files);
      if (record.outcome != Record::Outcome::OutOfMemory) continue;
      REQUIRE(record.phases.size() >= 2);
      INFO(record.id);
      ++messages;
      const OomMessage message = read_oom_message(record.oom_message, record.id);
      CHECK(message.limit() == record.run.capacity_limit);
      const auto x = explain(message, record.run);
      REQUIRE(x.match);
      INFO(x.match->at.step << " " << zplan::name(x.match->at.phase) << " " << x.match->at.event << " "
                            << x.match->runs_out);
      CHECK(std::make_pair(x.match->at.step, x.match->at.phase) == ended_in(record));
    }
  }
  CHECK(messages >= 4);
}
