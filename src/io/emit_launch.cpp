// launch.sh: what the job is, its inputs, what can be known to be wrong before it starts, its
// environment and its arguments. The last lines, which start it, are emit_start.cpp's.
#include "io/emit.h"
#include "io/emit_arguments.h"
#include "io/emit_start.h"

namespace zplan {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }
std::string major_minor(const Version& v) { return number(v.major) + "." + number(v.minor); }

std::string hub_name(const Model& model) {
  for (const auto& alias : model.aliases) {
    if (alias.find('/') != std::string::npos) return alias;
  }
  return model.name;
}

bool offloads_optimizer(const Run& run) {
  return run.ds.zero.offload_optimizer.device != OffloadDevice::None;
}

std::string strategy_line(const Run& run, const Cluster& cluster) {
  const ZeroConfig& z = run.ds.zero;
  std::string line = number(cluster.nodes) + (cluster.nodes == 1 ? " node" : " nodes") + " with " +
                     number(cluster.node.gpus) + " x " + cluster.node.gpu.name + ", ZeRO stage " +
                     number(z.stage);
  if (offloads_optimizer(run)) line += ", optimizer offloaded";
  if (z.stage == 3 && z.offload_param.device != OffloadDevice::None)
    line += ", parameters offloaded";
  return line;
}

const char* finetune_words(Finetune finetune) {
  switch (finetune) {
    case Finetune::Full:
      return "all parameters";
    case Finetune::Lora:
      return "LoRA adapters";
    case Finetune::Qlora:
      return "LoRA adapters on 4-bit weights";
    case Finetune::Freeze:
      return "all but the first layers";
  }
  return "";
}

std::string batch_line(const Run& run) {
  const std::int64_t micro = run.ds.train_micro_batch_size_per_gpu,
                     steps = run.ds.gradient_accumulation_steps;
  return std::string(finetune_words(run.workload.finetune)) + "; " +
         number(micro * steps * run.world_size) + " rows of " + number(run.workload.seq_len) +
         " tokens a step: " + number(micro) + " a GPU x " + number(steps) + " accumulated x " +
         number(run.world_size) + " GPUs";
}

// Which job this is, how to call it, and what its prediction holds for.
std::string header(const Run& run, const Cluster& cluster, const EmitOptions& options) {
  const Versions& v = run.versions;
  std::string text = "#!/usr/bin/env bash\n";
  if (options.launcher == Launcher::Slurm) {
    text += "#SBATCH --nodes=" + number(cluster.nodes) +
            "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=" + number(cluster.node.gpus) +
            "\n#SBATCH --exclusive\n#SBATCH --mem=0\n";
  }
  text += "# Fine-tunes " + run.model.name + " on " + strategy_line(run, cluster) + ":\n# " +
          batch_line(run) + ".\n";
  text += "# Written by " + options.made_by + " for DeepSpeed " + zplan::text(v.deepspeed) +
          ", torch " + major_minor(v.torch) + " and transformers " + major_minor(v.transformers) +
          ".\n#\n";
  const char* one_node =
      "#   DATA=rows.jsonl ./launch.sh [more arguments for the script, such as --max_steps 20]\n";
  switch (options.launcher) {
    case Launcher::DeepSpeed:
      text += one_node;
      if (cluster.nodes > 1)
        text +=
            "# once, on the first node of hostfile; all nodes see this folder at the same path.\n";
      break;
    case Launcher::Torchrun:
    case Launcher::Accelerate:
      if (cluster.nodes > 1) {
        text +=
            "#   DATA=rows.jsonl NODE_RANK=0 MASTER_ADDR=<first node> ./launch.sh [more arguments "
            "for the script]\n"
            "# on every node, each with its NODE_RANK.\n";
      } else {
        text += one_node;
      }
      break;
    case Launcher::Slurm:
      text +=
          "#   cd <this folder> && DATA=/path/rows.jsonl sbatch launch.sh [more arguments for the "
          "script]\n";
      break;
  }
  text +=
      "# MODEL, DATA and OUTPUT in the environment replace what is set below.\n#\n"
      "# The predicted memory is that of these settings. It changes with ds_config.json, the "
      "number of GPUs, the\n"
      "# micro-batch, accumulation, the length of a row, checkpointing, attention, the optimizer "
      "and the allocator's\n"
      "# environment. Learning rate, schedule, epochs and data do not change it; the learning rate "
      "and the other\n"
      "# values of the optimizer stand in ds_config.json too, and the Trainer wants the same in "
      "both.\n"
      "set -euo pipefail\n\n";
  return text;
}

std::string folder_and_inputs(const Run& run, const EmitOptions& options) {
  std::string text;
  if (options.launcher == Launcher::Slurm) {  // sbatch runs a copy of the script from elsewhere
    text += "here=${SLURM_SUBMIT_DIR:-$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)}\n";
  } else {
    text += "here=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n";
  }
  const std::string model = options.model.empty() ? hub_name(run.model) : options.model;
  text += "default_model=" + shell_word(model) + "\n";
  text += "model=${MODEL:-$default_model}\n";
  if (options.script.empty()) {
    text +=
        "default_data=" + (options.data.empty() ? "$here/data.jsonl" : shell_word(options.data)) +
        "\n";
    text += "data=${DATA:-$default_data}\n";
  }
  text += "output=${OUTPUT:-$here/output}\n";
  text +=
      "script=" + (options.script.empty() ? "$here/train.py" : shell_word(options.script)) + "\n\n";
  return text;
}

// What can be known to be wrong before any process is started.
std::string checks(const Run& run, const Cluster& cluster, const EmitOptions& options) {
  std::string text = R"(fail() { printf 'launch.sh: error: %s\n  fix: %s\n' "$1" "$2" >&2; exit 2; }

for file in "$here/ds_config.json" "$script"; do
  [[ -f $file ]] || fail "$file: there is no such file" "keep the files of a plan together, as zplan wrote them"
done
if [[ $model == /* || $model == .* || -d $model ]]; then
  [[ -f $model/config.json ]] || fail "$model: no model folder, it has no config.json" \
    "set MODEL to the folder of the model, or to its name on the hub"
fi
)";
  if (options.script.empty()) {
    text += R"([[ -f $data ]] || fail "$data: there are no rows to train on" \
  "set DATA to a JSONL file with rows {\"prompt\": ..., \"response\": ...} or {\"messages\": [...]}"
)";
  }
  const ZeroConfig& z = run.ds.zero;
  for (const auto* path : {&z.offload_optimizer.nvme_path, &z.offload_param.nvme_path}) {
    if (path->empty()) continue;
    text += "[[ -d " + shell_word(*path) + " && -w " + shell_word(*path) + " ]] || fail " +
            shell_word(*path + ": not a folder to write to") +
            " 'mount the NVMe disk there, or change nvme_path'\n";
  }
  text += R"(if command -v nvidia-smi >/dev/null; then
  found=$(nvidia-smi --list-gpus | grep -c '^GPU' || true)
  ((found >= )" +
          number(cluster.node.gpus) + R"()) || fail "this node has $found GPUs, the plan is for )" +
          number(cluster.node.gpus) + R"(" "plan again with --gpus local"
fi
)";
  return text;
}

// Installed packages against those of the plan. Another version runs, but its memory was not
// predicted.
std::string version_check(const Run& run) {
  const Workload& w = run.workload;
  std::string packages = "deepspeed==" + zplan::text(run.versions.deepspeed) +
                         " torch==" + major_minor(run.versions.torch) +
                         " transformers==" + major_minor(run.versions.transformers) + " accelerate";
  if (w.adapted()) packages += " peft";
  if (w.finetune == Finetune::Qlora || w.optimizer == OptimizerKind::Adam8bit)
    packages += " bitsandbytes";
  if (w.attention == Attention::Flash) packages += " flash-attn";
  if (w.kernels.any()) packages += " liger-kernel";
  return "python3 - " + packages + R"( <<'PYTHON' || exit 2
import sys
from importlib.metadata import PackageNotFoundError, version

for package in sys.argv[1:]:
    name, _, planned = package.partition("==")
    try:
        found = version(name).partition("+")[0]
    except PackageNotFoundError:
        sys.exit(f"launch.sh: error: the Python package {name} is not installed\n  fix: pip install '{package}'")
    if planned and not (found + ".").startswith(planned + "."):
        print(f"launch.sh: warning: {name} {found} is installed; memory was predicted for {planned}", file=sys.stderr)
PYTHON
)" +
         (w.optimizer == OptimizerKind::DeepSpeedAdam
              ? R"(if ! command -v nvcc >/dev/null && [[ ! -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
  echo "launch.sh: warning: no nvcc: DeepSpeed compiles its Adam at the first start unless it is prebuilt" >&2
fi
)"
              : "");
}

std::string environment(const Run& run, const Cluster& cluster) {
  std::string text = "\n";
  const Version& torch = run.versions.torch;
  // The name without CUDA came with torch 2.9 and is the only one read without a warning;
  // until 2.12 the CUDA allocator may read the old one, so both are set.
  if (run.alloc_conf.empty()) {
    text +=
        "# The prediction is for the allocator's defaults.\nunset PYTORCH_CUDA_ALLOC_CONF "
        "PYTORCH_ALLOC_CONF\n";
  } else {
    const std::string value = shell_word(run.alloc_conf);
    if (torch < Version{2, 12, 0}) text += "export PYTORCH_CUDA_ALLOC_CONF=" + value + "\n";
    if (torch >= Version{2, 9, 0}) text += "export PYTORCH_ALLOC_CONF=" + value + "\n";
  }
  if (offloads_optimizer(run)) {
    text += "# Adam runs on the CPU: each rank takes its share of the cores.\n";
    const std::string gpus = number(cluster.node.gpus);
    text += run.cpu_threads ? "export OMP_NUM_THREADS=" + number(*run.cpu_threads) + "\n"
                            : "cores=$(nproc)\nexport OMP_NUM_THREADS=$((cores > " + gpus +
                                  " ? cores / " + gpus + " : 1))\n";
  }
  return text;
}

std::string arguments(const Run& run, const EmitOptions& options) {
  std::string text = "\narguments=(\n  --model_name_or_path \"$model\"\n";
  if (options.script.empty()) text += "  --data \"$data\"\n";
  text += "  --output_dir \"$output\"\n  --deepspeed \"$here/ds_config.json\"\n";
  for (const auto& line : training_arguments(run, options)) text += "  " + line + "\n";
  return text + ")\n\n";
}

}  // namespace

std::string emit_launch(const Run& run, const Cluster& cluster, const EmitOptions& options) {
  return header(run, cluster, options) + folder_and_inputs(run, options) +
         checks(run, cluster, options) + version_check(run) + environment(run, cluster) +
         arguments(run, options) + start_command(cluster, options.launcher);
}

}  // namespace zplan
