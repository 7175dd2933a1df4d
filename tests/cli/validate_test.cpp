// zplan validate with a made-up engine: a script that puts a record where --out says and ends with a code.
#include "cli/validate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/record_reader.h"
#include "spec/error.h"
#include "tests/catch.h"

using namespace zplan;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kRuns = std::string(ZPLAN_SOURCE_DIR) + "/tests/truth/runs.jsonl";

// A folder that is there only for one test, with the engine and what it gives.
class Bench {
 public:
  Bench() : path_(fs::temp_directory_path() / ("zplan-validate-" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Bench() { fs::remove_all(path_); }
  std::string at(const std::string& file) const { return (path_ / file).string(); }
  void write(const std::string& file, const std::string& text) const { std::ofstream(path_ / file) << text; }

  // `python` that copies record.json to the --out it is given, tells how it was called, and ends with `code`.
  std::string engine(int code) const {
    write("engine", "#!/bin/sh\necho engine runs\nprintf '%s\\n' \"$@\" >'" + at("called") +
                        "'\nwhile [ $# -gt 1 ]; do [ \"$1\" = --out ] && out=$2; shift; done\n"
                        "[ -f '" +
                        at("record.json") + "' ] && cp '" + at("record.json") + "' \"$out\"\nexit " +
                        std::to_string(code) + "\n");
    ::chmod(at("engine").c_str(), 0755);
    return at("engine");
  }
  std::string called() const {
    std::ifstream in(path_ / "called");
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  fs::path path_;
};

json measured(const std::string& id) {
  for (const auto& text : record_texts(DiskFiles(), kRuns)) {
    if (record_id(text) == id) return json::parse(text.text);
  }
  return {};
}

struct Outcome {
  int code;
  std::string out, error;
};

Outcome validated(const ValidationOptions& o, const LocalGpus& here, const ValidationReportOptions& report = {}) {
  static const Catalog catalog = load_catalog(DiskFiles(), ZPLAN_SOURCE_DIR);
  std::ostringstream out, err;
  Console console{out, err};
  try {
    const int code = run_validation(o, report, here, catalog, "/zplan", console);
    return {code, out.str(), err.str()};
  } catch (const InputError& e) {
    return {2, out.str(), e.what()};
  }
}

ValidationOptions options(const Bench& bench, int code) {
  ValidationOptions o;
  o.like = kRuns + "#a01";
  o.stand_in = true;
  o.python = bench.engine(code);
  o.out = bench.at("measurements.json");
  return o;
}

const LocalGpus kOneH200{1, "H200", ""};

}  // namespace

TEST_CASE("validate ends with 0 within the tolerance and with 1 outside it or where the outcome is another", "[cli]") {
  const auto [name, change, exit, code, said] =
      GENERATE(table<std::string, std::function<void(json&)>, int, int, std::string>({
          {"as measured", [](json&) {}, 0, 0, "allocated_peak 2 %, reserved_peak 6 %: within"},
          {"every allocated peak 3 % higher",
           [](json& r) {
             for (auto& p : r["phases"])
               p["allocated_peak_bytes"] = p["allocated_peak_bytes"].get<std::int64_t>() * 103 / 100;
           },
           0, 1, "exceeded    allocated_peak: mean 2.9"},
          {"ran out of memory", [](json& r) { r["outcome"] = "oom"; }, 1, 1, "WRONG: ran out of memory"},
      }));
  INFO(name);
  const Bench bench;
  json record = measured("a01");
  change(record);
  record["components"] = {{"parameters", 1192099840}, {"optimizer", 0}};
  bench.write("record.json", record.dump());
  const Outcome r = validated(options(bench, exit), kOneH200);
  INFO(r.out << r.error);
  CHECK(r.code == code);
  CHECK(r.out.find(said) != std::string::npos);
  CHECK(r.out.find("step  phase     allocated  measured") != std::string::npos);
  CHECK(r.out.find("held after the last step") != std::string::npos);
  CHECK(r.out.find("engine runs") == std::string::npos);  // only the result goes to standard output
  CHECK(bench.called() == "/zplan/validate/deepspeed/probe.py\n--like\n" + kRuns + "#a01\n--stand-in\n--out\n" +
                              bench.at("measurements.json") + "\n");
}

TEST_CASE("validate compares nothing that this run did not measure", "[cli]") {
  const Bench bench;
  bench.write("measurements.json", measured("a01").dump());  // of an earlier run
  const Outcome failed = validated(options(bench, 3), kOneH200);
  CHECK(failed.code == 2);
  CHECK(failed.error ==
        "zplan validate: nothing to compare: the run ended with exit code 3\n  fix: its last message stands above");
  const Outcome nothing = validated(options(bench, 0), kOneH200);
  CHECK(nothing.code == 2);
  CHECK(nothing.error ==
        "zplan validate: the run wrote no " + bench.at("measurements.json") + "\n  fix: its last message stands above");
  ValidationOptions absent = options(bench, 0);
  absent.python = bench.at("no-python");
  CHECK(validated(absent, kOneH200).error == bench.at("no-python") +
                                                 ": cannot be started: No such file or directory\n"
                                                 "  fix: install it, or name another with --python or --program");
}

TEST_CASE("without the GPUs validate says so, says what it would have run, and ends with 2", "[cli]") {
  const Bench bench;
  ValidationOptions o = options(bench, 0);
  o.python = "python3";
  o.out = "m.json";
  const std::string one =
      "python3 /zplan/validate/deepspeed/probe.py --like '" + kRuns + "#a01' --stand-in --out m.json";
  const Outcome none = validated(o, {0, "", "the NVIDIA driver's library libnvidia-ml.so.1 is not here"});
  CHECK(none.code == 2);
  CHECK(none.error ==
        "zplan validate: no GPU to measure on: the NVIDIA driver's library libnvidia-ml.so.1 is not here; "
        "it would have run Qwen3-0.6B, ZeRO-0, on 2 ranks (a01):\n  " +
            one + "\n  fix: run it there, then `zplan compare m.json`");
  CHECK(validated(o, {}, {{}, false, true}).out == one + "\n");  // --dry-run

  o.stand_in = false;
  const Outcome few = validated(o, kOneH200);
  CHECK(few.code == 2);
  CHECK(few.out ==
        "python3 -m torch.distributed.run --standalone --nproc_per_node 2 /zplan/validate/deepspeed/probe.py --like '" +
            kRuns + "#a01' --out m.json\n");
  CHECK(few.error.find("needs 2 GPUs, this machine has 1; the command printed is for a machine that has them") !=
        std::string::npos);
}

TEST_CASE("what validate runs of a plan", "[cli]") {
  const Bench bench;
  const auto inputs = [](int nodes, int world, const char* finetune) {
    return json{{"schema", "zplan.plan/1"},
                {"best",
                 {{"simulation",
                   {{"world_size", world},
                    {"inputs",
                     {{"model", {{"name", "Qwen3-8B"}}},
                      {"workload",
                       {{"seq_len", 2048}, {"recompute", "full"}, {"finetune", finetune}, {"kernels", json::array()}}},
                      {"ds_config", {{"zero_optimization", {{"stage", 3}}}}},
                      {"alloc_conf", "expandable_segments:True"},
                      {"machine", {{"nodes", nodes}, {"gpu", "H200"}}}}}}}}}};
  };
  bench.write("ds_config.json", "{}");
  ValidationOptions o;
  o.plan = bench.at("");
  o.plan.pop_back();
  const auto line = [&](const json& plan) {
    bench.write("plan.json", plan.dump());
    return validated(o, {}, {{}, false, true});
  };
  const std::string probe = "/zplan/validate/deepspeed/probe.py --plan " + o.plan;
  CHECK(line(inputs(1, 1, "full")).out == "python3 " + probe + " --out measurements.json\n");
  CHECK(line(inputs(2, 16, "full")).out ==
        "python3 -m torch.distributed.run --nnodes 2 --node_rank \"$NODE_RANK\" --master_addr \"$MASTER_ADDR\" "
        "--master_port 29500 --nproc_per_node 8 " +
            probe + " --out measurements.json\n");
  o.stand_in = true;
  o.rank = 3;
  o.capacity = "37.5GiB";
  CHECK(line(inputs(2, 16, "full")).out ==
        "python3 " + probe + " --stand-in --rank 3 --capacity 37.5GiB --out measurements.json\n");
  o.engine = ValidationEngine::Native;
  CHECK(line(inputs(1, 4, "full")).out ==
        "zplan-validate --model Qwen3-8B --ds-config " + bench.at("ds_config.json") +
            " --seq-len 2048 --recompute full --recompute-impl non-reentrant --load cpu --world 4 "
            "--alloc-conf expandable_segments:True --stand-in --rank 3 --capacity 37.5GiB --out measurements.json\n");
  CHECK(line(inputs(1, 4, "lora")).error ==
        "--engine native: zplan-validate does not run --finetune lora\n  fix: use --engine deepspeed");
  o.rank = 4;
  CHECK(line(inputs(1, 4, "full")).error == "--rank: 4 is not a rank of 4\n  fix: ranks count from 0");
  CHECK(line({{"schema", "zplan.plan/1"}, {"best", nullptr}}).error ==
        bench.at("plan.json") + ":/best: nothing fits in this plan\n  fix: plan for more or larger GPUs");
}
