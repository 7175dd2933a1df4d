// The lines of launch.sh that start the processes, for each launcher, and the files that go with
// them.
#include "io/emit_start.h"

namespace zplan {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }

std::string start_deepspeed(const Cluster& cluster) {
  const std::string gpus = number(cluster.node.gpus);
  if (cluster.nodes == 1) {
    return R"(# --num_gpus would ignore CUDA_VISIBLE_DEVICES.
devices=(--num_gpus )" +
           gpus + R"()
if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
  IFS=, read -ra visible <<<"$CUDA_VISIBLE_DEVICES"
  ((${#visible[@]} == )" +
           gpus +
           R"()) || fail "CUDA_VISIBLE_DEVICES names ${#visible[@]} GPUs, the plan is for )" +
           gpus +
           R"(" "name as many, or unset it"
  devices=(--include "localhost:$CUDA_VISIBLE_DEVICES")
  unset CUDA_VISIBLE_DEVICES
fi
exec deepspeed "${devices[@]}" --master_port "${MASTER_PORT:-29500}" --no_local_rank \
  "$script" "${arguments[@]}" "$@"
)";
  }
  return R"(if grep -q '^node-1 ' "$here/hostfile" && ! getent hosts node-1 >/dev/null; then
  fail "$here/hostfile: node-1 is no host here" "write the names of your nodes into hostfile"
fi
command -v pdsh >/dev/null || fail "pdsh is not installed" "install pdsh, or plan with --launcher torchrun"
# The launcher hands NCCL_* and PYTHON* to the other nodes by itself; these go through a file.
env | grep -E '^(PYTORCH_|OMP_NUM_THREADS=|HF_HOME=|CUDA_HOME=)' >"$here/.deepspeed_env" || true
export DS_ENV_FILE=$here/.deepspeed_env
exec deepspeed --hostfile "$here/hostfile" --master_port "${MASTER_PORT:-29500}" --no_local_rank \
  "$script" "${arguments[@]}" "$@"
)";
}

const char* kNodeChecks =
    R"([[ -n ${NODE_RANK:-} ]] || fail "NODE_RANK is not set" "start launch.sh on every node, with NODE_RANK=0, 1, ..."
[[ -n ${MASTER_ADDR:-} ]] || fail "MASTER_ADDR is not set" "set it to the first node's name on every node"
)";

std::string start_torchrun(const Cluster& cluster) {
  const std::string gpus = number(cluster.node.gpus);
  if (cluster.nodes == 1) {
    return "exec torchrun --standalone --nproc_per_node " + gpus +
           " \"$script\" \"${arguments[@]}\" \"$@\"\n";
  }
  return kNodeChecks +
         ("exec torchrun --nnodes " + number(cluster.nodes) + " --nproc_per_node " + gpus) +
         R"( --node_rank "$NODE_RANK" \
  --master_addr "$MASTER_ADDR" --master_port "${MASTER_PORT:-29500}" "$script" "${arguments[@]}" "$@"
)";
}

std::string start_accelerate(const Cluster& cluster) {
  const std::string begin =
      "exec accelerate launch --config_file \"$here/accelerate.yaml\" "
      "--deepspeed_config_file \"$here/ds_config.json\" \\\n  ";
  if (cluster.nodes == 1) return begin + "\"$script\" \"${arguments[@]}\" \"$@\"\n";
  return kNodeChecks + begin +
         R"(--machine_rank "$NODE_RANK" --main_process_ip "$MASTER_ADDR" --main_process_port "${MASTER_PORT:-29500}" \
  "$script" "${arguments[@]}" "$@"
)";
}

std::string start_slurm(const Cluster& cluster) {
  return R"([[ -n ${SLURM_JOB_ID:-} ]] || fail "this is no Slurm job" "submit it: sbatch launch.sh"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# One task a node; torchrun starts the ranks on it.
exec srun --ntasks-per-node 1 --kill-on-bad-exit=1 \
  torchrun --nnodes )" +
         number(cluster.nodes) + " --nproc_per_node " + number(cluster.node.gpus) +
         R"( --rdzv_id "$SLURM_JOB_ID" \
  --rdzv_backend c10d --rdzv_endpoint "$first:${MASTER_PORT:-29500}" "$script" "${arguments[@]}" "$@"
)";
}

}  // namespace

std::string start_command(const Cluster& cluster, Launcher launcher) {
  switch (launcher) {
    case Launcher::DeepSpeed:
      return start_deepspeed(cluster);
    case Launcher::Torchrun:
      return start_torchrun(cluster);
    case Launcher::Accelerate:
      return start_accelerate(cluster);
    case Launcher::Slurm:
      return start_slurm(cluster);
  }
  return "";
}

std::string emit_hostfile(const Cluster& cluster) {
  std::string text = "# One node a line, by the name that ssh knows it by; slots are its GPUs.\n";
  for (std::int64_t i = 1; i <= cluster.nodes; ++i) {
    text += "node-" + number(i) + " slots=" + number(cluster.node.gpus) + "\n";
  }
  return text;
}

std::string emit_accelerate_config(const Cluster& cluster) {
  // Every ZeRO setting and the precision stand in ds_config.json; accelerate refuses them in two
  // places.
  return "compute_environment: LOCAL_MACHINE\n"
         "distributed_type: DEEPSPEED\n"
         "deepspeed_config:\n"
         "  deepspeed_config_file: ds_config.json\n"
         "  deepspeed_multinode_launcher: standard\n"
         "  zero3_init_flag: true\n"
         "machine_rank: 0\n"
         "main_training_function: main\n"
         "num_machines: " +
         number(cluster.nodes) +
         "\n"
         "num_processes: " +
         number(cluster.world_size()) +
         "\n"
         "rdzv_backend: static\n"
         "same_network: true\n"
         "use_cpu: false\n";
}

}  // namespace zplan
