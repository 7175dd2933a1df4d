// tests/truth/measured.jsonl: runs measured with validate/deepspeed beyond those of runs.jsonl.
#include <set>

#include "io/record_reader.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("every further measured run names a known model and GPU and says nothing unknown", "[truth]") {
  // Inputs of single runs that zplan does not simulate yet; anything else unknown is a mistake in the record.
  const std::set<std::string> not_simulated = {"lora_dropout", "recompute_offload", "adapter_autocast", "zero_init"};
  std::set<std::string> ids;
  for (const RecordText& text : record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/measured.jsonl")) {
    INFO(text.where);
    const Record record = read_record(text, catalog(), MapFiles{});
    INFO(record.id);
    CHECK(ids.insert(record.id).second);
    CHECK(record.run.gpu.id == "h200-sxm-141gb");
    CHECK(record.run.steps >= 2);
    CHECK(record.phases.front().phase == "start");
    for (const Note& note : record.notes) {
      if (note.code != "record-key-unknown") continue;
      const std::size_t begin = note.text.find('"') + 1;
      const std::string key = note.text.substr(begin, note.text.find('"', begin) - begin);
      INFO(key);
      CHECK(not_simulated.count(key) == 1);
    }
  }
  CHECK(ids.size() == 100);
}
