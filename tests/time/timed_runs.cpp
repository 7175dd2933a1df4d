#include "tests/time/timed_runs.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/time/machines.h"

namespace zplan::testing {
namespace {

ZeroConfig zero_config(const nlohmann::json& j) {
  ZeroConfig z;
  const auto set = [&j](const char* key, auto& member) {
    if (j.contains(key)) j.at(key).get_to(member);
  };
  set("stage", z.stage);
  set("overlap_comm", z.overlap_comm);
  set("reduce_bucket_size", z.reduce_bucket_size);
  set("allgather_bucket_size", z.allgather_bucket_size);
  set("stage3_prefetch_bucket_size", z.stage3_prefetch_bucket_size);
  set("stage3_param_persistence_threshold", z.stage3_param_persistence_threshold);
  set("sub_group_size", z.sub_group_size);
  set("stage3_max_live_parameters", z.stage3_max_live_parameters);
  set("stage3_max_reuse_distance", z.stage3_max_reuse_distance);
  if (j.value("offload_optimizer", "") == "cpu") z.offload_optimizer.device = OffloadDevice::Cpu;
  return z;
}

}  // namespace

TimedRuns timed_runs() {
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/time/timed_runs.jsonl");
  std::string line;
  std::getline(file, line);
  const auto head = nlohmann::json::parse(line);
  TimedRuns all;
  all.tolerances = head.at("tolerances").get<std::map<std::string, double>>();
  while (std::getline(file, line)) {
    const auto j = nlohmann::json::parse(line);
    TimedRun t;
    t.id = j.at("id");
    t.run.model = model(j.at("model"));
    t.run.workload.seq_len = j.at("seq_len");
    t.run.workload.recompute.every = j.at("recompute_every");
    t.run.workload.kernels.fused_linear_cross_entropy = j.at("fused_loss");
    if (const std::int64_t rank = j.at("lora_rank"); rank > 0) {
      t.run.workload.finetune = Finetune::Lora;
      t.run.workload.lora_rank = rank;
    }
    t.run.ds.train_micro_batch_size_per_gpu = j.at("micro_batch");
    t.run.ds.gradient_accumulation_steps = j.at("grad_accum");
    t.run.ds.zero = zero_config(j.at("zero"));
    t.run.world_size = j.at("world_size");
    t.run.cpu_threads = j.at("cpu_threads").get<std::int64_t>();
    t.cluster = cluster(head.at("card"), t.run.world_size);
    t.cluster.node.cpu_cores = j.at("host_cores");
    t.run.gpu = t.cluster.node.gpu;
    t.forward_s = j.at("forward_s");
    t.backward_s = j.at("backward_s");
    t.step_s = j.at("step_s");
    t.loop_s = j.at("loop_step_s").back();
    all.runs.push_back(std::move(t));
  }
  return all;
}

}  // namespace zplan::testing
