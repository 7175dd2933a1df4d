#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/record_reader.h"
#include "tests/catch.h"
#include "tests/cli/run.h"

using namespace zplan;
using namespace zplan::testing;
using nlohmann::json;

namespace {

struct MadeFolder : Folder {
  MadeFolder() : Folder("calibrate") { std::filesystem::create_directories(path()); }
};

const std::string truth = ZPLAN_SOURCE_DIR "/tests/truth/runs.jsonl";

// Some of the recorded runs as a file of their own.
void write_records(const std::string& path, const std::vector<std::string>& ids) {
  std::ofstream file(path);
  for (const RecordText& text : record_texts(DiskFiles(), truth)) {
    if (std::find(ids.begin(), ids.end(), record_id(text)) != ids.end()) file << text.text << "\n";
  }
}

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

}  // namespace

TEST_CASE("calibrate writes a profile, and predictions use it", "[cli]") {
  const MadeFolder folder;
  const std::string records = folder / "some.jsonl", profile = folder / "profile.json";
  write_records(records, {"r04", "r16", "r_a03"});
  const Outcome made = zplan_run({"calibrate", records, "--out", profile});
  INFO(made.out << made.err);
  REQUIRE(made.code == 0);
  CHECK(made.out.find("left at the prior") != std::string::npos);
  CHECK(made.out.find("a stage-3 run with LoRA beside one without, micro-batch 1") != std::string::npos);
  const json written = read_json(profile);
  CHECK(written.at("schema") == "zplan.profile/1");
  CHECK(written.at("gpu") == "h200-sxm-141gb");
  CHECK(written.at("coefficients").contains("nccl_up_to_4_ranks"));

  const std::vector<std::string> simulate = {"simulate", "--like", truth + "#r04", "--json"};
  const auto with = [&](const std::string& said, const std::string& profiles = "") {
    auto words = simulate;
    if (!said.empty()) words.insert(words.end(), {"--profile", said});
    return json::parse(zplan_run(words, profiles).out);
  };
  const json plain = with(""), used = with(profile), found = with("", folder.path()),
             off = with("none", folder.path());
  const double bytes = written.at("coefficients").at("nccl_up_to_4_ranks").at("value");
  CHECK(used.at("outside_allocator_bytes").at("nccl") == std::llround(bytes));
  CHECK(used.at("time") != plain.at("time"));
  CHECK(found.at("time") == used.at("time"));
  CHECK(found.at("assumptions").back().at("option") == "--profile");
  CHECK(off.at("time") == plain.at("time"));
}

TEST_CASE("a profile of another GPU or of other versions is refused", "[cli]") {
  const MadeFolder folder;
  const std::string profile = folder / "p.json";
  std::ofstream(profile) << R"({"schema": "zplan.profile/1", "gpu": "h200-sxm-141gb",
    "versions": {"deepspeed": "0.19.6", "torch": "2.11.0", "transformers": "5.17.0"}, "coefficients": {}})";
  const Outcome gpu = zplan_run({"--model", "qwen3-8b", "--gpus", "4xA100-40G", "--no-files", "--profile", profile});
  CHECK(gpu.code == 2);
  CHECK(gpu.out.empty());
  CHECK(gpu.err == "zplan: error: --profile " + profile +
                       ": was measured on h200-sxm-141gb, not on a100-sxm4-40gb\n"
                       "  fix: calibrate on this GPU with these versions, or use --profile none\n");
  const Outcome version = zplan_run(
      {"--model", "qwen3-8b", "--gpus", "4xH200", "--no-files", "--deepspeed", "0.16.9", "--profile", profile});
  CHECK(version.err.find("was measured with DeepSpeed 0.19.6, not 0.16.9") != std::string::npos);
}

TEST_CASE("a bad profile in the user's folder is remarked upon and passed over", "[cli]") {
  const MadeFolder folder;
  std::ofstream(folder / "broken.json") << "{";
  const Outcome o = zplan_run({"simulate", "--like", truth + "#r04", "--json"}, folder.path());
  CHECK(o.out.find("A profile is passed over: ") != std::string::npos);
  CHECK(o.out.find("the JSON text ends too early") != std::string::npos);
}

TEST_CASE("calibrate refuses what cannot be calibrated together, and nothing is written", "[cli]") {
  const MadeFolder folder;
  const std::string records = folder / "mixed.jsonl", profile = folder / "profile.json";
  write_records(records, {"r04"});
  std::ifstream file(records);
  std::string line;
  std::getline(file, line);
  json other = json::parse(line);
  other["id"] = "elsewhere";
  other["versions"]["gpu"] = "A100-40G";
  std::ofstream(records, std::ios::app) << other.dump() << "\n";
  const Outcome gpus = zplan_run({"calibrate", records, "--out", profile});
  CHECK(gpus.code == 2);
  CHECK(gpus.err.find("mixed.jsonl:3: elsewhere is of another kind than r04, which was measured on h200-sxm-141gb, "
                      "not on a100-sxm4-40gb") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(profile));
  const Outcome missing = zplan_run({"calibrate", folder / "nothing.json", "--out", profile});
  CHECK(missing.code == 2);
}

TEST_CASE("records that determine nothing give no profile and exit code 1", "[cli]") {
  const MadeFolder folder;
  const std::string record = folder / "oom.jsonl", profile = folder / "profile.json";
  write_records(record, {"b01c37.5"});
  const Outcome o = zplan_run({"calibrate", record, "--out", profile});
  INFO(o.out << o.err);
  CHECK(o.code == 1);
  CHECK(o.out.find("Nothing could be fitted.") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(profile));
}

TEST_CASE("calibrate --json gives zplan.calibration/1", "[cli]") {
  const MadeFolder folder;
  const std::string records = folder / "some.jsonl";
  write_records(records, {"r04"});
  const json j = json::parse(zplan_run({"calibrate", records, "--out", folder / "p.json", "--json"}).out);
  CHECK(j.at("schema") == "zplan.calibration/1");
  CHECK(j.at("profile") == read_json(folder / "p.json"));
  CHECK(j.at("steps").size() == 1);
  CHECK(j.at("compared") == 2);
  CHECK(j.at("coefficients").size() > 35);
}
