#include "cli/program.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run.h"

using namespace zplan;
using namespace zplan::testing;
using nlohmann::json;


TEST_CASE("input errors end with code 2, one message on stderr and nothing on stdout", "[cli]") {
  const auto [arguments, error] = GENERATE(table<std::vector<std::string>, const char*>({
      {{"model"}, "zplan: error: zplan model: there is no such command\n  fix: did you mean models?\n"},
      {{"models", "--jsn"},
       "zplan: error: zplan models: The following argument was not expected: --jsn\n"
       "  fix: `zplan models --help` lists the options\n"},
      {{"models", "show", "qwen4-8b"},
       "zplan: error: zplan models show: unknown model 'qwen4-8b'\n  fix: did you mean Qwen3-8B, Qwen2-7B or Qwen3-4B? "
       "`zplan models` lists those known by name; any other works by the path of its config.json\n"},
      {{"gpus", "show", "H10"},
       "zplan: error: zplan gpus show: 'H10' may be several GPUs\n  fix: say which: H100 NVL, H100 PCIe or H100\n"},
  }));
  INFO(arguments.front());
  const Outcome outcome = zplan_run(arguments);
  CHECK(outcome.code == 2);
  CHECK(outcome.err == error);
  CHECK(outcome.out.empty());
}

TEST_CASE("without its data zplan says where it should be", "[cli]") {
  const Outcome outcome = zplan_run({"models"}, "", "/nowhere");
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "zplan: error: /nowhere: no models/ and hardware/ here\n"
                       "  fix: set ZPLAN_DATA to the folder that holds zplan's models/ and hardware/\n");
}

TEST_CASE("help and version are no errors", "[cli]") {
  const auto [arguments, start] = GENERATE(table<std::vector<std::string>, const char*>({
      {{"--version"}, "zplan "},
      {{"--help"}, "Plans DeepSpeed fine-tuning"},
      {std::vector<std::string>(), "Plans DeepSpeed fine-tuning"},
      {{"models", "--help"}, "The models known by name"},
  }));
  const Outcome outcome = zplan_run(arguments);
  CHECK(outcome.code == 0);
  CHECK(outcome.out.rfind(start, 0) == 0);
  CHECK(outcome.err.empty());
}

TEST_CASE("models and GPUs are shown with their sources", "[cli]") {
  const std::string models = zplan_run({"models"}).out;
  CHECK(models.find("Qwen3-8B                     8.19B") != std::string::npos);
  CHECK(models.find("Qwen3-8B ") < models.find("Qwen3-14B "));
  CHECK(zplan_run({"models", "show", "Qwen/Qwen3-8B"}).out.find("8,190,735,360 in 399 tensors") != std::string::npos);
  const std::string gpu = zplan_run({"gpus", "show", "a100-40g"}).out;
  CHECK(gpu.find("memory_total_gib             39.39    bottlerocket-os/bottlerocket PR #3873") != std::string::npos);
  CHECK(gpu.find("gcp-a2-highgpu-4g") != std::string::npos);
  CHECK(zplan_run({"gpus", "show", "dgx-h100"}).out.rfind("NVIDIA DGX H100", 0) == 0);
}

TEST_CASE("--json gives the same in JSON", "[cli]") {
  const json models = json::parse(zplan_run({"models", "--json"}).out);
  CHECK(models.size() >= 30);
  for (const json& model : models) CHECK(model.at("parameters") == model.at("published_parameters"));
  const json gpu = json::parse(zplan_run({"gpus", "show", "A100-40G", "--json"}).out);
  CHECK(gpu.at("memory_total_gib") == 39.39);
  CHECK(gpu.at("compute_capability") == "8.0");
  CHECK(gpu.at("source").at("memory_total_gib") == "bottlerocket-os/bottlerocket PR #3873 (deviceQuery 42,298,834,944 bytes)");
  CHECK(gpu.at("machines").size() >= 5);
  CHECK(json::parse(zplan_run({"gpus", "--json"}).out).size() >= 30);
}
