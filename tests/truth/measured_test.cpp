// tests/truth/measured.jsonl: runs measured with validate/deepspeed beyond those of runs.jsonl.
#include <set>

#include "io/record_reader.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("every further measured run names a known model and GPU and says nothing unknown", "[truth]") {
  std::set<std::string> ids;
  for (const RecordText& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/measured.jsonl")) {
    INFO(text.where);
    const Record record = read_record(text, catalog(), MapFiles{});
    INFO(record.id);
    CHECK(ids.insert(record.id).second);
    CHECK(record.run.gpu.id == "h200-sxm-141gb");
    CHECK(record.run.steps >= 2);
    CHECK(record.phases.front().phase == "start");
    for (const Note& note : record.notes) CHECK(note.code != "record-key-unknown");
  }
  CHECK(ids.size() == 103);
}
