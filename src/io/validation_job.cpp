#include "io/validation_job.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;
namespace fs = std::filesystem;

// plan.json of a folder; a file as it is.
std::string plan_file(const std::string& path) { return fs::is_directory(path) ? path + "/plan.json" : path; }

// `inputs` of a plan or a simulation, as the job: what zplan-validate takes as options.
ValidationJob job_of_simulation(const JsonObject& simulation, const std::string& ds_config) {
  const JsonObject inputs = simulation.object("inputs");
  const JsonObject workload = inputs.object("workload"), machine = inputs.object("machine");
  ValidationJob job;
  job.world_size = simulation.positive("world_size");
  job.nodes = machine.positive_or("nodes", 1);
  job.gpu = machine.text_or("gpu", "");
  job.model = inputs.object("model").text("name");
  job.ds_config = ds_config;
  job.seq_len = workload.positive("seq_len");
  job.recompute = workload.text_or("recompute", "none");
  job.recompute_impl = workload.text_or("recompute_impl", "non-reentrant");
  job.alloc_conf = inputs.text_or("alloc_conf", "");
  job.load = workload.text_or("load", "cpu");
  const std::string finetune = workload.text_or("finetune", "full");
  if (finetune != "full")
    job.only_deepspeed = "--finetune " + finetune;
  else if (!workload.texts("kernels").empty())
    job.only_deepspeed = "Liger kernels";
  else if (ds_config.empty())
    job.only_deepspeed = "a simulation without a ds_config.json beside it";
  const std::int64_t stage = inputs.object("ds_config").object("zero_optimization").count_or("stage", 0);
  job.what = job_text(job.model, stage, job.world_size);
  return job;
}

}  // namespace

std::string job_text(const std::string& model, std::int64_t stage, std::int64_t ranks) {
  return model + ", ZeRO-" + std::to_string(stage) + ", on " + std::to_string(ranks) +
         (ranks == 1 ? " rank" : " ranks");
}

ValidationJob read_validation_job(const std::string& path, const FileSource& files) {
  const std::string file = plan_file(path);
  if (!files.exists(file)) {
    throw InputError("--plan " + path, "there is no plan here",
                     "plan first (`zplan --model M --gpus G`), or use --like RECORD");
  }
  const json value = parse_json(files.read(file), file);
  const JsonObject root(value, file);
  const std::string schema = root.text("schema");
  if (schema == "zplan.simulation/1") return job_of_simulation(root, "");
  if (schema != "zplan.plan/1")
    root.fail("schema", "'" + schema + "' is no plan", "name the plan.json that `zplan plan` wrote");
  if (!root.has("best")) root.fail("best", "nothing fits in this plan", "plan for more or larger GPUs");
  const std::string beside = (fs::path(file).parent_path() / "ds_config.json").string();
  return job_of_simulation(root.object("best").object("simulation"), files.exists(beside) ? beside : "");
}

std::string unmeasured(const std::string& path, const FileSource& files) {
  const auto value = parse_json(files.read(path), path);
  const JsonObject record(value, path);
  const std::string outcome = record.text_or("outcome", "incomplete");
  if (outcome == "ok" || outcome == "oom") return "";
  std::string why = path + " ended as " + outcome;
  if (record.has("failure"))
    why += " " + record.object("failure").text_or("where", "") + ": " + record.object("failure").text_or("what", "");
  return why.substr(0, why.find('\n'));
}

}  // namespace zplan
