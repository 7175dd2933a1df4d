// Predicted against published throughput, with the uncalibrated coefficients. README.md says how rows were chosen.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/time/machines.h"
#include "time/step_time.h"

using namespace zplan;
using nlohmann::json;

namespace {

Model row_model(const json& j) {
  Model m;
  m.name = j.at("model");
  m.hidden = j.at("hidden");
  m.intermediate = j.at("intermediate");
  m.layers = j.at("layers");
  m.heads = j.at("heads");
  m.kv_heads = j.at("kv_heads");
  m.head_dim = j.at("head_dim");
  m.vocab = j.at("vocab");
  m.tied_embeddings = j.at("tied");
  m.qk_norm = m.name.rfind("Qwen3", 0) == 0;
  return m;
}

Run row_run(const json& j) {
  Run r;
  r.model = row_model(j);
  r.workload.seq_len = j.at("seq_len");
  r.workload.recompute.every = j.at("recompute_every");
  const bool fused = j.at("fused_kernels");
  r.workload.kernels = {.fused_linear_cross_entropy = j.at("fused_loss"), .rms_norm = fused, .rope = fused, .swiglu = fused};
  r.workload.optimizer = OptimizerKind::TorchAdamFused;
  r.workload.attention = j.at("attention") == "flash" ? Attention::Flash : Attention::Sdpa;
  r.ds.train_micro_batch_size_per_gpu = j.at("micro_batch");
  r.ds.gradient_accumulation_steps = j.at("grad_accum");
  r.ds.zero.stage = j.at("stage");
  r.ds.zero.overlap_comm = r.ds.zero.stage == 3 || j.at("engine") == "fsdp";
  r.world_size = j.at("gpus");
  return r;
}

// FSDP gathers and scatters whole layers, and none of DeepSpeed's hooks run.
TimeCoefficients as_fsdp(Run& r) {
  TimeCoefficients c;
  for (const CoefficientEntry& e : coefficient_table()) {
    if (e.name.starts_with("host_zero3") || e.name == "host_step_tensor") (c.*e.member).value = 0;
  }
  const std::int64_t layer = 12 * r.model.hidden * r.model.hidden;
  r.ds.zero.stage3_module_granularity_threshold = layer;
  r.ds.zero.stage3_prefetch_bucket_size = r.ds.zero.reduce_bucket_size = layer;
  return c;
}

struct Source {
  int rows = 0;
  double absolute = 0, bias = 0, worst = 0, squares_in_errors = 0;
};

}  // namespace

TEST_CASE("published throughput is predicted from data sheets", "[time]") {
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/time/throughput.jsonl");
  std::string line;
  std::ifstream limits(ZPLAN_SOURCE_DIR "/tests/time/tolerances.json");
  const double tolerance = json::parse(limits).at("public_rows").at("mean");
  std::map<std::string, Source> sources;
  while (std::getline(file, line)) {
    const json j = json::parse(line);
    Run run = row_run(j);
    const std::int64_t nodes = j.at("nodes");
    const Cluster machine =
        testing::cluster(j.at("gpu"), run.world_size / nodes, nodes, j.value("network_gb_per_s", 0.0));
    run.gpu = machine.node.gpu;
    const TimeCoefficients c = j.at("engine") == "fsdp" ? as_fsdp(run) : TimeCoefficients{};
    const StepTime time = predict_step_time(run, machine, c);
    const double predicted = time.tokens_per_second_per_gpu();
    const double error = j.at("tokens_per_s_per_gpu").get<double>() / predicted - 1;  // of the time
    for (const std::string& key : {j.at("source").get<std::string>() + ", " + j.at("gpu").get<std::string>(),
                                   std::string("all")}) {
      Source& s = sources[key];
      ++s.rows;
      s.absolute += std::abs(error);
      s.bias += error;
      s.worst = std::max(s.worst, std::abs(error));
      s.squares_in_errors += error * error / (time.relative_error * time.relative_error);
    }
  }
  std::printf("%-82s %4s %6s %7s %6s\n", "source, GPU", "rows", "mean", "bias", "worst");
  for (const auto& [name, s] : sources) {
    std::printf("%-82s %4d %5.1f%% %+6.1f%% %5.1f%%\n", name.c_str(), s.rows, 100 * s.absolute / s.rows,
                100 * s.bias / s.rows, 100 * s.worst);
  }
  const Source& all = sources.at("all");
  CHECK(all.rows >= 100);
  CHECK(all.absolute / all.rows <= tolerance);
  const double in_errors = std::sqrt(all.squares_in_errors / all.rows);  // measured error over stated error
  CHECK(in_errors < 1.5);
  CHECK(in_errors > 0.4);
}
