// validate/results/kernels-h200.json: the kernels of a micro-step by operator, against the three sums that the time model makes.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/time/machines.h"
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

}  // namespace

TEST_CASE("the kernels of a micro-step take what their products and traffic say", "[time]") {
  std::ifstream file(ZPLAN_SOURCE_DIR "/validate/results/kernels-h200.json");
  const auto cases = nlohmann::json::parse(file)["cases"];
  REQUIRE(cases.size() == 6);
  double apart = 0;
  int phases = 0;
  std::printf("%-24s %22s %22s %22s\n", "kernels, ms (error)", "products", "attention", "element-wise");
  for (const auto& c : cases) {
    Run r = testing::run(c["model"], testing::cluster("h200-sxm-141gb", 1), 0, c["micro_batch"]);
    r.workload.recompute.every = 0;
    r.workload.seq_len = c["seq_len"];
    r.workload.kernels.fused_linear_cross_entropy = c["fused_loss"];
    const auto predicted = micro_step_kernels(r, model_shape(r.model, r.workload), gpu_rates(r.gpu, r.ds.precision, r.workload.attention, {}));
    for (const char* phase : {"forward", "backward"}) {
      const KernelSeconds m = measured(c[phase]), p = phase == std::string("forward") ? predicted.forward : predicted.backward;
      std::printf("%-10s m%lld%s %-8s", c["model"].get<std::string>().c_str(), c["micro_batch"].get<long long>(),
                  c["fused_loss"] ? "-f" : "  ", phase);
      for (const double KernelSeconds::*part : {&KernelSeconds::matmul, &KernelSeconds::attention, &KernelSeconds::element_wise}) {
        std::printf(" %10.2f (%+6.1f %%)", 1e3 * m.*part, 100 * (p.*part / (m.*part) - 1));
      }
      std::printf("\n");
      INFO(c["model"] << " " << c["micro_batch"] << " " << phase);
      // The fused loss: addmm's sums count as traffic here and as a product there.
      if (!c["fused_loss"]) CHECK(std::abs(p.matmul / m.matmul - 1) < 0.05);
      if (!c["fused_loss"]) CHECK(std::abs(p.element_wise / m.element_wise - 1) < 0.07);
      const double error = p.total() / m.total() - 1;
      CHECK(std::abs(error) < 0.07);
      apart += std::abs(error);
      ++phases;
    }
  }
  std::printf("mean error of a phase's kernels: %.1f %%\n", 100 * apart / phases);
  CHECK(apart / phases < 0.04);
}
