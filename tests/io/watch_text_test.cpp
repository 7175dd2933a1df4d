#include "io/watch_text.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "io/prometheus.h"
#include "tests/catch.h"

using namespace zplan;
using nlohmann::json;

namespace {

// One GPU as predicted, and one without a process of the job.
Watch example() {
  Prediction p;
  p.model = "Qwen3-8B";
  p.strategy = "ZeRO-3, \"1 x 16\"";
  p.gpu = "H200";
  p.capacity = GiB(140);
  p.gpus_per_node = 2;
  p.reserved = GiB(36);
  p.outside = GiB(2);
  p.rank_difference = Bytes{};
  p.step = Seconds{10};
  p.curve = {{-1, "init", GiB(20), GiB(18)}, {1, "step", GiB(38), GiB(38)}};
  WatchOptions o;
  o.patience = Seconds{1};
  Watch w(p, o);
  const GpuSample busy{0, "GPU-a", "H200", GiB(140), GiB(41), {{7, GiB(38), 3}}},
      idle{1, "GPU-b", "H200", GiB(140), MiB(4), {}};
  w.observe(Seconds{0}, {busy, idle});
  w.observe(Seconds{2}, {busy, idle});
  return w;
}

std::string file(const std::string& name) {
  std::ifstream in(std::string(ZPLAN_SOURCE_DIR) + "/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Names of the samples of an exposition, without labels.
std::set<std::string> exported(const std::string& text) {
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind('#', 0) != 0) names.insert(line.substr(0, line.find_first_of("{ ")));
  }
  return names;
}

}  // namespace

TEST_CASE("the table shows each GPU, its prediction and what it is warned about", "[io]") {
  CHECK(watch_table(example(), "14:03:11", {}) ==
        "Qwen3-8B, ZeRO-3, \"1 x 16\": 38.0 GiB a GPU predicted (36.0 for torch's allocator + 2.0 outside it) of "
        "140.0 GiB\n"
        "14:03:11\n"
        "GPU  rank  used  peak  predicted  share  headroom GiB\n"
        "  0     3  38.0  38.0       38.0   27 %          99.0  █████████▒······················  as in step of step "
        "1\n"
        "  1     -     -     -          -      -             -  no process of the job\n"
        "Notes       Warning: The job is on 1 of the 2 GPUs that the plan has on a node. Fix: check "
        "CUDA_VISIBLE_DEVICES,\n"
        "            and whether a rank has ended.\n");
  CHECK(watch_line(example()) == "GPU 0 38.0 GiB (100 % of predicted)");
}

TEST_CASE("a line of JSON a sample", "[io]") {
  const std::string line = watch_json_line(example(), 1.5);
  CHECK(line.find('\n') == line.size() - 1);
  const json j = json::parse(line);
  CHECK(j["schema"] == "zplan.watch/1");
  CHECK(j["time"] == 1.5);
  CHECK(j["predicted_bytes"] == GiB(38).count);
  CHECK(j["gpus"][0]["used_bytes"] == GiB(38).count);
  CHECK(j["gpus"][0]["others_bytes"] == GiB(3).count);
  CHECK(j["gpus"][0]["rank"] == 3);
  CHECK(j["gpus"][1]["rank"].is_null());
  CHECK(j["gpus"][1]["in_job"] == false);
  CHECK(j["warnings"][0]["code"] == "missing-ranks");
}

TEST_CASE("the metrics in Prometheus' text format", "[io]") {
  const std::string text = prometheus_text(example(), "0.1");
  for (const char* line :
       {"# TYPE zplan_gpu_memory_used_bytes gauge\nzplan_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-a\",rank=\"3\"} "
        "40802189312\n",
        "zplan_gpu_memory_capacity_bytes{gpu=\"1\",uuid=\"GPU-b\"} 150323855360\n",
        "zplan_predicted_phase_bytes{step=\"\",phase=\"init\"} 21474836480\n",
        "zplan_warnings_total{code=\"missing-ranks\"} 1\n", "zplan_warnings_total{code=\"growing\"} 0\n",
        "\nzplan_samples_total 2\n",
        "zplan_info{version=\"0.1\",model=\"Qwen3-8B\",strategy=\"ZeRO-3, \\\"1 x 16\\\"\",gpu_name=\"H200\"} 1\n"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
  CHECK(text.find("used_bytes{gpu=\"1\"") == std::string::npos);  // not in the job
  // The grammar of the format: comments, or name{labels} value.
  const std::regex sample(R"re([a-z_]+(\{([a-z_]+="([^"\\]|\\.)*",?)+\})? -?[0-9.e+-]+)re");
  const std::regex comment("# (HELP [a-z_]+ .+|TYPE [a-z_]+ (gauge|counter))");
  std::istringstream lines(text);
  std::set<std::string> typed;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(std::regex_match(line, line[0] == '#' ? comment : sample));
    if (line.rfind("# TYPE ", 0) == 0) CHECK(typed.insert(line.substr(7, line.find(' ', 7) - 7)).second);
  }
  for (const auto& name : exported(text)) CHECK(typed.count(name) == 1);
}

TEST_CASE("the Grafana dashboard asks for metrics that are exported, and shows all that a GPU has", "[io]") {
  const std::string text = file("docs/grafana-dashboard.json");
  const json dashboard = json::parse(text);
  const auto known = exported(prometheus_text(example(), ""));
  std::set<std::string> asked, ids;
  for (const auto& panel : dashboard.at("panels")) {
    CHECK(ids.insert(panel.at("id").dump()).second);
    CHECK(panel.at("gridPos").at("x").get<int>() + panel.at("gridPos").at("w").get<int>() <= 24);
    for (const auto& target : panel.value("targets", json::array())) {
      const std::string expression = target.at("expr");
      const std::regex name("zplan_[a-z_]+");
      for (std::sregex_iterator at(expression.begin(), expression.end(), name), end; at != end; ++at)
        asked.insert(at->str());
    }
  }
  CHECK(asked.size() >= 8);
  for (const auto& name : asked) {
    INFO(name);
    CHECK(known.count(name) == 1);
  }
  for (const auto& name : known) {
    if (name.rfind("zplan_gpu_", 0) != 0) continue;
    INFO(name);
    CHECK(asked.count(name) == 1);
  }
}
