// The options of run_options.h: names, help and groups.
#include "cli/run_options.h"

namespace zplan {

void add_run_options(CLI::App& command, RunOptions& o) {
  command.add_option("--model", o.model, "A model (qwen3-8b), or the path of a config.json")->group("What and where");
  command.add_option("--gpus", o.gpus, "4xA100-40G, 2x8xH100, dgx-h100, local, or a hardware file")->group("What and where");
  command.add_option("--host-ram", o.host_ram, "Host memory of a node, such as 512GiB")->group("What and where");
  command.add_option("--nvme", o.nvme, "NVMe capacity of a node, such as 3TiB")->group("What and where");
  command.add_option("--seq-len", o.seq_len, "Tokens a sequence (2048)")->group("Training");
  command.add_option("--global-batch", o.global_batch, "Sequences a step over all ranks (64)")->group("Training");
  command.add_option("--micro-batch", o.micro_batch, "Sequences a rank takes at once")->group("Training");
  command.add_option("--grad-accum", o.grad_accum, "Micro-batches a step")->group("Training");
  command.add_option("--finetune", o.finetune, "full, lora, qlora or freeze (full)")->group("Training");
  command.add_option("--lora-rank", o.lora_rank, "Rank of the adapters (16)")->group("Training");
  command.add_option("--freeze-layers", o.freeze_layers, "First layers that do not train, for --finetune freeze")->group("Training");
  command.add_option("--precision", o.precision, "bf16, fp16 or fp32 (bf16)")->group("Training");
  command.add_option("--optimizer", o.optimizer,
                     "deepspeed-adamw, torch-adamw-fused, torch-adamw-foreach or bitsandbytes-adamw8bit")->group("Training");
  command.add_option("--attention", o.attention, "sdpa, flash or eager (sdpa)")->group("Training");
  command.add_option("--recompute", o.recompute, "Activation checkpointing: none, full or every-N")->group("Training");
  command.add_option("--recompute-impl", o.recompute_impl, "non-reentrant or reentrant (non-reentrant)")->group("Training");
  command.add_flag("--fused-loss", o.fused_loss, "Liger's fused linear cross entropy")->group("Training");
  command.add_option("--alloc-conf", o.alloc_conf, "PYTORCH_CUDA_ALLOC_CONF, such as expandable_segments:True")->group("Training");
  command.add_option("--deepspeed", o.deepspeed, "DeepSpeed's version (0.19.8)")->group("Versions");
  command.add_option("--torch", o.torch, "PyTorch's version (2.11)")->group("Versions");
  command.add_option("--transformers", o.transformers, "transformers' version (5)")->group("Versions");
  command.add_option("--profile", o.profile,
                     "What zplan calibrate wrote, or none (searched by GPU and versions)")->group("Versions");
}

void add_simulation_options(CLI::App& command, RunOptions& o) {
  command.add_option("--ds-config", o.ds_config, "The ds_config.json to simulate")->group("Simulation");
  command.add_option("--like", o.like, "Every input from a measurement record: FILE, or FILE#ID")->group("Simulation");
  command.add_option("--rank", o.rank, "The rank to simulate, or all (0)")->group("Simulation");
  command.add_option("--steps", o.steps, "Steps to simulate (3)")->group("Simulation");
  command.add_option("--capacity", o.capacity, "Limit of the caching allocator, such as 39GiB")->group("Simulation");
}

}  // namespace zplan
