// validate/results/launched-h200.json: plans that were started with their launch.sh on a GPU. What the processes
// reported at their end is what the simulation of the same ds_config says, in the one decimal that train.py prints.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/run_options.h"
#include "step/simulation.h"
#include "tests/catch.h"
#include "tests/io/catalog.h"

using namespace zplan;

namespace {

double gib_in_one_decimal(Bytes bytes) {
  return std::round(10 * static_cast<double>(bytes.count) / static_cast<double>(GiB(1).count)) / 10;
}

}  // namespace

TEST_CASE("launched plans learn, and peak where they were predicted to", "[truth]") {
  const auto launched =
      nlohmann::json::parse(DiskFiles().read(ZPLAN_SOURCE_DIR "/validate/results/launched-h200.json"));
  CHECK(launched.at("runs").size() == 7);
  for (const auto& measured : launched.at("runs")) {
    INFO(measured.at("plan"));
    CHECK(measured.at("exit_code") == 0);
    CHECK(measured.at("losses").size() == 20);
    CHECK(measured.at("losses").back().get<double>() < 0.6 * measured.at("losses").front().get<double>());

    const auto& arguments = measured.at("arguments");
    RunOptions options;
    options.model = "qwen3-0.6b";  // its shape, with random weights
    options.gpus = "1xH200";
    options.ds_config = "ds_config.json";
    options.recompute = arguments.at("gradient_checkpointing") == "true" ? "full" : "none";
    options.seq_len = std::stoll(arguments.at("seq_len").get<std::string>());
    options.finetune = arguments.at("finetune");
    options.deepspeed = launched.at("versions").at("deepspeed");
    const MapFiles files{{"ds_config.json", measured.at("ds_config").dump()}};
    const Simulation predicted = simulate(run_inputs(options, Purpose::Simulate, catalog(), files).run, Detail::Figures);
    const auto& peak = measured.at("peak_gib").at(0);
    CHECK(gib_in_one_decimal(predicted.peak.allocated) == Approx(peak.at("allocated").get<double>()));
    CHECK(gib_in_one_decimal(predicted.peak.reserved) == Approx(peak.at("reserved").get<double>()));
  }
}
