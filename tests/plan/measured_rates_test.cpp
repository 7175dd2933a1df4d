#include "plan/measured_rates.h"

#include <algorithm>
#include <cmath>

#include "io/rates_reader.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/io/catalog.h"
#include "time/rates.h"

using namespace zplan;

namespace {

const std::string path = ZPLAN_SOURCE_DIR "/validate/results/rates-h200.json";

MeasuredRates h200() { return read_rates(DiskFiles().read(path), path, catalog()); }

const MeasuredGroup& group(const std::vector<MeasuredGroup>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const MeasuredGroup& g) { return g.name == name; });
  if (found == all.end()) throw std::out_of_range(name);
  return *found;
}

}  // namespace

TEST_CASE("rates of an H200 are read with their shapes", "[plan]") {
  const MeasuredRates m = h200();
  CHECK(m.id == "rates-h200.json");
  CHECK(m.cluster.node.gpu.id == "h200-sxm-141gb");
  CHECK(m.products.size() == 162);
  CHECK(m.attention.size() == 8);
  CHECK(m.attention.front().width == 32 * 128);
  CHECK(m.element_wise.size() == 21);
  CHECK(m.layers.size() == 12);
  CHECK(*m.link_bytes_per_s == Approx(55.36e9).epsilon(0.001));
  CHECK_FALSE(m.all_links_bytes_per_s);
}

TEST_CASE("kernels alone are near what the priors say of them", "[plan]") {
  const auto all = measured_groups(h200());
  const auto [name, factor] = GENERATE(table<std::string, double>({
      {"large products", 1.25},
      {"attention", 1.25},
      {"attention backward", 1.25},
      {"kernels that stream", 1.25},
      {"kernels that widen", 1.25},
      {"layers of few tokens", 1.5},
      {"layers, forward", 1.25},
      {"layers, backward", 1.25},
      {"copies of one GPU", 1.05},
  }));
  const MeasuredGroup& g = group(all, "rates-h200.json: " + name);
  REQUIRE(g.seconds.size() == 1);
  CHECK_FALSE(g.whole);
  const double ratio = g.predict(TimeCoefficients{})[0] / g.seconds[0];
  INFO(name << ": predicted " << ratio << " of measured");
  CHECK(std::abs(std::log(ratio)) < std::log(factor));
}

TEST_CASE("the time of copies gives the rate of the link", "[plan]") {
  const TimeCalibration c = calibrate_time(measured_groups(h200()));
  for (const auto& r : c.table) {
    if (r.name != "pcie") continue;
    CHECK(r.fitted);
    CHECK(r.value.value == Approx(55.36 / 64).epsilon(0.02));
  }
  CHECK(c.steps.empty());
}

TEST_CASE("rates that make no sense are refused", "[plan]") {
  const auto read = [](const std::string& text) {
    return error_text([&] { read_rates(text, "r.json", catalog()); });
  };
  CHECK(read(R"({"schema": "zplan.rates/1", "gpu": "H200", "gpus": 0})") ==
        "r.json:/gpus: expected an integer of 1 or more, found 0\n  fix: write an integer of 1 or more");
  CHECK(
      read(
          R"({"schema": "zplan.rates/1", "gpu": "H200", "gpus": 1, "matmul": [{"m": 8, "n": 8, "k": 8, "seconds": -1}]})") ==
      "r.json:/matmul/0/seconds: expected a number of 0 or more, found -1\n  fix: write a number of 0 or more");
  CHECK(
      read(
          R"({"schema": "zplan.rates/1", "gpu": "H200", "gpus": 1, "matmul": [{"m": 8, "n": 8, "k": 8, "seconds": 0}]})") ==
      "r.json:/matmul/0/seconds: must be more than 0\n  fix: measure again");
  const std::string failed =
      R"({"schema": "zplan.rates/1", "gpu": "H200", "gpus": 1, "matmul": {"error": "out of memory"}})";
  CHECK(read_rates(failed, "r.json", catalog()).products.empty());
  CHECK(is_rates(failed, "r.json"));
  CHECK_FALSE(is_rates("[1]", "r.json"));
}

TEST_CASE("the passes of the step on the CPU are read by threads, and near what the priors say of them", "[plan]") {
  const std::string file = ZPLAN_SOURCE_DIR "/validate/results/cpu-optimizer-2xh200.json";
  const MeasuredRates m = read_rates(DiskFiles().read(file), file, catalog());
  REQUIRE(m.cpu_steps.size() == 4);  // 1, 4, 8 and 16 threads on each of two ranks
  CHECK(m.cpu_steps[3].threads == 16);
  CHECK(m.cpu_steps[3].passes_s == Approx(0.025 + 0.0886 + 0.0265).epsilon(0.01));
  CHECK(m.cpu_steps[3].pageable_s == Approx(0.1125 - 0.0265).epsilon(0.01));
  const auto all = measured_groups(m);
  for (const char* name : {"CPU step, 4 threads a rank", "CPU step, 16 threads a rank", "pageable copies"}) {
    const MeasuredGroup& g = group(all, "cpu-optimizer-2xh200.json: " + std::string(name));
    INFO(name);
    CHECK(std::abs(std::log(g.predict(TimeCoefficients{})[0] / g.seconds[0])) < std::log(1.5));
  }
}
