#include "io/emit.h"

#include "spec/error.h"

namespace zplan {
namespace {

void require_version(bool used, const Version& have, const Version& need,
                     const std::string& program, const std::string& option,
                     const std::string& otherwise) {
  if (!used || have >= need) return;
  throw InputError(option,
                   program + " " + text(have) + " cannot do this; it came with " + text(need),
                   otherwise);
}

void check(const Run& run, const Cluster& cluster) {
  if (cluster.world_size() != run.world_size) {
    throw InputError("--gpus " + cluster.asked,
                     "the plan is for " + std::to_string(run.world_size) +
                         " ranks, the cluster has " + std::to_string(cluster.world_size()) +
                         " GPUs",
                     "plan for the GPUs that there are");
  }
  const Recompute& recompute = run.workload.recompute;
  const Version& transformers = run.versions.transformers;
  require_version(recompute.every > 1, transformers, first_checkpointing_every_n_layers,
                  "transformers", "--recompute every-" + std::to_string(recompute.every),
                  "use --recompute full or none");
  require_version(recompute.offload, transformers, first_checkpoint_offload, "transformers",
                  "--recompute offload", "keep the checkpoints on the GPU");
  const DsConfig& ds = run.ds;
  require_version(ds.bf16_master_weights_and_grads || ds.bf16_optimizer_states,
                  run.versions.deepspeed, {0, 18, 3}, "DeepSpeed",
                  "bf16.bf16_master_weights_and_grads", "leave it at false");
  // Recomputing a frozen, partitioned parameter found it empty: CheckpointError (fixed by DeepSpeed
  // #8148).
  const bool adapters = run.workload.adapted();
  require_version(adapters && ds.zero.stage == 3 && recompute.any() &&
                      recompute.impl == RecomputeImpl::NonReentrant,
                  run.versions.deepspeed, {0, 19, 3}, "DeepSpeed",
                  "adapters under ZeRO-3 with --recompute-impl non-reentrant",
                  "use --recompute-impl reentrant");
}

}  // namespace

Training default_training(Finetune finetune) {
  Training training;
  if (finetune == Finetune::Lora || finetune == Finetune::Qlora) training.learning_rate = 1e-4;
  return training;
}

std::vector<OutputFile> emit_files(const Run& run, const Cluster& cluster,
                                   const EmitOptions& options) {
  check(run, cluster);
  std::vector<OutputFile> files = {{"ds_config.json", emit_ds_config(run, options), false},
                                   {"launch.sh", emit_launch(run, cluster, options), true}};
  if (options.script.empty()) files.push_back({"train.py", train_script(), false});
  if (options.launcher == Launcher::DeepSpeed && cluster.nodes > 1) {
    files.push_back({"hostfile", emit_hostfile(cluster), false});
  }
  if (options.launcher == Launcher::Accelerate) {
    files.push_back({"accelerate.yaml", emit_accelerate_config(cluster), false});
  }
  return files;
}

}  // namespace zplan
