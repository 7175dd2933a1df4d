// validate/results/kernels-h200.json: the kernels of a micro-step by operator, against the three sums that the time model makes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/time/machines.h"
#include "time/host.h"
#include "time/kernels.h"

using namespace zplan;

namespace {

KernelSeconds measured(const nlohmann::json& operators) {
  KernelSeconds k;
  for (const auto& row : operators) {
    const std::string name = row["operator"];
    const double seconds = row["us"].get<double>() * 1e-6;
    const bool product = name == "aten::mm" || name == "aten::addmm", attention = name.find("attention") != std::string::npos;
    (product ? k.matmul : attention ? k.attention : k.element_wise) += seconds;
  }
  return k;
}

struct Case {
  nlohmann::json measured;
  Run run;
  bool fused = false;
  std::string name;
};

std::vector<Case> cases() {
  std::ifstream file(ZPLAN_SOURCE_DIR "/validate/results/kernels-h200.json");
  const auto recorded = nlohmann::json::parse(file);
  std::vector<Case> all;
  for (const auto& c : recorded.at("cases")) {
    Run r = testing::run(c["model"], testing::cluster("h200-sxm-141gb", 1), 0, c["micro_batch"]);
    r.workload.recompute.every = 0;
    r.workload.seq_len = c["seq_len"];
    const bool fused = r.workload.kernels.fused_linear_cross_entropy = c["fused_loss"];
    all.push_back({c, r, fused, c["model"].get<std::string>() + " m" + std::to_string(c["micro_batch"].get<int>()) + (fused ? "-f" : "")});
  }
  return all;
}

GpuRates rates(const Run& r) { return gpu_rates(r.gpu, r.ds.precision, r.workload.attention, {}); }
MicroStepKernels kernels(const Run& r, const GpuRates& g) { return micro_step_kernels(r, model_shape(r.model, r.workload), g); }
constexpr KernelSeconds MicroStepKernels::*phases[] = {&MicroStepKernels::forward, &MicroStepKernels::backward};
const char* const phase_names[] = {"forward", "backward"};

}  // namespace

TEST_CASE("the kernels of a micro-step take what their products and traffic say", "[time]") {
  REQUIRE(cases().size() == 6);
  double apart = 0;
  int counted = 0;
  std::printf("%-24s %22s %22s %22s %12s\n", "kernels, ms (error)", "products", "attention", "element-wise", "all, ms");
  for (const Case& c : cases()) {
    const auto predicted = kernels(c.run, rates(c.run));
    for (const int i : {0, 1}) {
      const KernelSeconds m = measured(c.measured[phase_names[i]]), p = predicted.*phases[i];
      std::printf("%-15s %-8s", c.name.c_str(), phase_names[i]);
      for (const double KernelSeconds::*part : {&KernelSeconds::matmul, &KernelSeconds::attention, &KernelSeconds::element_wise}) {
        std::printf(" %10.2f (%+6.1f %%)", 1e3 * m.*part, 100 * (p.*part / (m.*part) - 1));
      }
      std::printf(" %12.1f\n", 1e3 * m.total());
      INFO(c.name << " " << phase_names[i]);
      // The fused loss: addmm's sums count as traffic here and as a product there.
      if (!c.fused) CHECK(std::abs(p.matmul / m.matmul - 1) < 0.05);
      if (!c.fused) CHECK(std::abs(p.element_wise / m.element_wise - 1) < 0.07);
      const double error = p.total() / m.total() - 1;
      CHECK(std::abs(error) < 0.07);
      apart += std::abs(error);
      ++counted;
    }
  }
  std::printf("mean error of a phase's kernels: %.1f %%\n", 100 * apart / counted);
  CHECK(apart / counted < 0.04);
}

// What the coefficients are held against: least squares of relative errors over all phases. Streamed and indexed kernels come
// in much the same proportion in each, so that the two rates together are known better than each.
TEST_CASE("the rates of the H200's kernels follow from their recorded seconds", "[time]") {
  double bb = 0, bi = 0, ii = 0, b1 = 0, i1 = 0;
  for (const Case& c : cases()) {
    GpuRates streams = rates(c.run), indexes = streams;  // one byte, or one element, a second; the other at no time
    streams.memory_bytes_per_s = indexes.indexed_per_s = 1;
    streams.indexed_per_s = indexes.memory_bytes_per_s = std::numeric_limits<double>::infinity();
    const auto bytes = kernels(c.run, streams), indexed = kernels(c.run, indexes);
    for (const int i : {0, 1}) {
      if (c.fused && i == 0) continue;
      const double seconds = measured(c.measured[phase_names[i]]).element_wise;
      const double b = (bytes.*phases[i]).element_wise / seconds, x = (indexed.*phases[i]).element_wise / seconds;
      bb += b * b, bi += b * x, ii += x * x, b1 += b, i1 += x;
    }
  }
  const double determinant = bb * ii - bi * bi;
  const double bytes_per_s = determinant / (b1 * ii - i1 * bi), indexed_per_s = determinant / (i1 * bb - b1 * bi);
  std::printf("element-wise kernels: %.2f TB/s streamed, %.0fe9 elements/s indexed\n", bytes_per_s / 1e12, indexed_per_s / 1e9);
  const GpuRates used = rates(cases().front().run);
  const double beside_used = ii / (i1 - bi / used.memory_bytes_per_s);
  std::printf("beside the %.2f TB/s that are used: %.0fe9 elements/s\n", used.memory_bytes_per_s / 1e12, beside_used / 1e9);
  CHECK(used.indexed_per_s == Approx(beside_used).epsilon(0.03));
  const TimeCoefficients priors;
  CHECK(used.memory_bytes_per_s == Approx(bytes_per_s).epsilon(priors.memory_fraction.relative_error));
  CHECK(used.indexed_per_s == Approx(indexed_per_s).epsilon(priors.indexed_per_clock.relative_error));

  const Coefficient gap_prior = priors.kernel_gap_s;
  for (const Case& c : cases()) {
    GpuRates alone = rates(c.run);
    alone.matmul_launch_s = 0;
    const auto flops = kernels(c.run, alone);
    double walls = 0, busy = 0, operators = 0;
    const HostSeconds host = host_seconds(c.run, model_shape(c.run.model, c.run.workload), {}, {});
    for (const int i : {0, 1}) {
      const auto& wall = c.measured["wall_ms"];
      walls += std::min_element(wall.begin(), wall.end(), [i](const auto& a, const auto& b) { return a[i] < b[i]; })->at(i).template get<double>() / 1e3;
      busy += measured(c.measured[phase_names[i]]).total();
      operators += i == 0 ? host.forward_operators : host.backward_operators;
      const double tflops = alone.matmul_flops_per_s / 1e12 * (flops.*phases[i]).matmul / measured(c.measured[phase_names[i]]).matmul;
      if (!c.fused) std::printf("%-15s %-8s products %.0f TFLOPS\n", c.name.c_str(), phase_names[i], tflops);
      if (c.name == "qwen3-1.7b m4" || c.name == "qwen3-1.7b m8") CHECK(tflops == Approx(785).epsilon(0.005));
    }
    if (c.run.ds.train_micro_batch_size_per_gpu < 4) continue;  // the host, not the GPU, made these wait
    const double gap = (walls - busy) / operators;
    std::printf("%-15s          gaps %.1f us\n", c.name.c_str(), 1e6 * gap);
    if (!c.fused) CHECK(gap == Approx(gap_prior.value).epsilon(gap_prior.relative_error));
  }
}
