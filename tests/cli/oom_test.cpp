// `zplan oom` on the messages of measured runs.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run.h"

using namespace zplan;
using namespace zplan::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// With a message in a file, for the configuration of record b01c37.5.
Outcome oom(const std::string& message, std::vector<std::string> more = {}) {
  const fs::path file = fs::temp_directory_path() / ("zplan-oom-" + std::to_string(::getpid()));
  std::ofstream(file) << message;
  std::vector<std::string> arguments = {"oom", "--like", ZPLAN_SOURCE_DIR "/tests/truth/runs.jsonl#b01c37.5",
                                        "--message", file.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = zplan_run(arguments);
  fs::remove(file);
  return outcome;
}

const std::string measured =
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.86 GiB. GPU 0 has a total capacity of "
    "139.80 "
    "GiB of which 104.65 GiB is free. Including non-PyTorch memory, this process has 35.14 GiB memory in use. 37.50 "
    "GiB "
    "allowed; Of the allocated memory 30.61 GiB is allocated by PyTorch, and 3.72 GiB is reserved by PyTorch but "
    "unallocated.";

}  // namespace

TEST_CASE("oom names the tensor, says why and how to get out, in text and JSON", "[cli]") {
  const auto text = oom(measured);
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  for (const char* part :
       {"tried to allocate 3.86 GiB", "step 0, step: optimizer state of sub-group 1: 3.9 GiB of optimizer",
        "fragmentation decides", "optimizer 19.0 GiB", "Ways out    ", "GiB reserved, as fast"}) {
    INFO(part << "\n" << text.out);
    CHECK(text.out.find(part) != std::string::npos);
  }
  const json j = json::parse(oom(measured, {"--json"}).out);
  CHECK(j["schema"] == "zplan.oom/1");
  CHECK(j["explained"] == true);
  CHECK(j["message"]["limit_bytes"] == 40265318400);
  CHECK(j["match"]["at"]["phase"] == "step");
  CHECK(j["match"]["component"] == "optimizer");
  CHECK(j["ways_out"].size() >= 2);
  for (const auto& way : j["ways_out"]) CHECK(way["need_bytes"] <= 40265318400);
}

TEST_CASE("what cannot be explained ends with 1, what is no message with 2", "[cli]") {
  std::string other = measured;
  other.replace(other.find("3.86"), 4, "9.99");
  const auto unknown = oom(other);
  CHECK(unknown.code == 1);
  CHECK(unknown.out.find("Not found.") != std::string::npos);
  CHECK(unknown.out.find("Perhaps") != std::string::npos);
  const auto none = oom("Segmentation fault");
  CHECK(none.code == 2);
  CHECK(none.out.empty());
  CHECK(none.err.find("there is no out-of-memory message of PyTorch in it\n  fix: ") != std::string::npos);
}
