#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/cli/run.h"

using namespace zplan;
using namespace zplan::testing;

TEST_CASE("zplan replay: 0 when a history is reproduced, 1 when not, 2 when it cannot be tried",
          "[cli]") {
  const std::string t02 = ZPLAN_SOURCE_DIR "/tests/truth/traces/t02.json.gz";
  const auto [arguments, code,
              says] = GENERATE_COPY(table<std::vector<std::string>, int, const char*>({
      {{t02}, 0, "replayed exactly: every address, segment and free, and the layout at the end\n"},
      {{t02, "--torch", "2.12"}, 1, "first difference at entry "},
      {{t02, "--alloc-conf", "roundup_power2_divisions:4"}, 1, "\n  expected "},
      {{t02, "--alloc-conf", "max_split_size_mb:1"},
       2,
       "zplan: error: --alloc-conf: CachingAllocator option max_split_size_mb too small, must be "
       ">= 20\n"
       "  fix: use max_split_size_mb:20 or more\n"},
      {{"no-such-file.json"}, 2, "zplan: error: no-such-file.json: No such file or directory\n"},
  }));
  std::vector<std::string> words{"replay"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  INFO(arguments.back());
  const Outcome outcome = zplan_run(words);
  CHECK(outcome.code == code);
  CHECK((code == 2 ? outcome.err : outcome.out).find(says) != std::string::npos);
}
