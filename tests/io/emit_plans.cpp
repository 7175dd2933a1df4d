#include "tests/io/emit_plans.h"

namespace zplan {
namespace {

EmitCase plan(const std::string& name, std::int64_t nodes, std::int64_t gpus, int stage) {
  EmitCase c;
  c.name = name;
  Model& m = c.run.model;
  m.name = "Qwen3-8B";
  m.aliases = {"Qwen/Qwen3-8B"};
  m.model_type = "qwen3";
  m.hidden = 4096;
  m.layers = 36;
  c.run.versions = default_versions();
  c.run.ds.gradient_accumulation_steps = 4;
  c.run.ds.zero.stage = stage;
  c.run.ds.zero.overlap_comm = stage == 3;
  if (stage > 0) c.run.ds.zero.reduce_bucket_size = 200'000'000;
  if (stage == 1 || stage == 2) c.run.ds.zero.allgather_bucket_size = 100'000'000;
  c.run.ds.zero.stage3_gather_16bit_weights_on_model_save = stage == 3;
  c.run.workload.recompute.every = 1;
  c.cluster.nodes = nodes;
  c.cluster.node.gpus = gpus;
  c.cluster.node.gpu.name = "A100-SXM4-40GB";
  c.run.gpu = c.cluster.node.gpu;
  c.run.world_size = nodes * gpus;
  return c;
}

}  // namespace

std::vector<EmitCase> emit_cases() {
  std::vector<EmitCase> all;
  const auto add = [&](const std::string& name, std::int64_t nodes, std::int64_t gpus,
                       int stage) -> EmitCase& {
    all.push_back(plan(name, nodes, gpus, stage));
    return all.back();
  };
  all.reserve(32);

  add("zero0-1gpu", 1, 1, 0);
  add("zero1-fp16", 1, 2, 1).run.ds.precision = Precision::Fp16;
  add("zero1-fp32", 1, 2, 1).run.ds.precision = Precision::Fp32;
  {
    EmitCase& c = add("zero1-fp32-accumulation", 1, 8, 1);
    c.run.ds.grad_accum_dtype = Precision::Fp32;
    c.run.ds.communication_data_type = Precision::Fp32;
    c.run.workload.recompute.every = 0;
  }
  {
    EmitCase& c = add("zero2-torchrun", 1, 4, 2);
    c.options.launcher = Launcher::Torchrun;
    c.run.ds.train_micro_batch_size_per_gpu = 2;
    c.run.alloc_conf = "expandable_segments:True";
    c.run.ds.zero.round_robin_gradients = true;
    c.run.ds.zero.reduce_scatter = false;
    c.run.ds.bf16_check_grad_overflow = false;
  }
  {
    EmitCase& c = add("zero2-cpu-adam", 1, 4, 2);
    c.run.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
    c.run.ds.zero.offload_optimizer.pin_memory = false;
  }
  {
    EmitCase& c = add("zero2-trainers-adam", 1, 4, 2);
    c.run.workload.optimizer = OptimizerKind::TorchAdamFused;
    c.run.workload.parameter_groups = 2;
    c.run.ds.gradient_clipping = 0.5;
  }
  {
    EmitCase& c = add("zero2-adam-8bit", 1, 4, 2);
    c.run.workload.optimizer = OptimizerKind::Adam8bit;
    c.run.workload.recompute.every = 2;
  }
  {
    EmitCase& c = add("zero3", 1, 4, 3);
    c.run.ds.zero.reduce_bucket_size = 4096 * 4096;
    c.run.ds.zero.stage3_prefetch_bucket_size = 15'099'494;
    c.run.ds.zero.stage3_param_persistence_threshold = 40'960;
    c.run.ds.zero.sub_group_size = 100'000'000;
    c.run.ds.zero.stage3_max_live_parameters = 300'000'000;
    c.run.ds.zero.stage3_max_reuse_distance = 0;
    EmitCase kept = c;
    kept.name = "zero3-keep-auto";
    kept.options.keep_auto = true;
    all.push_back(kept);
  }
  {
    EmitCase& c = add("zero3-offload", 1, 4, 3);
    c.run.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
    c.run.ds.zero.offload_optimizer.ratio = 0.7;
    c.run.ds.zero.offload_param.device = OffloadDevice::Cpu;
    c.run.ds.zero.overlap_comm = false;
    c.run.cpu_threads = 12;
    c.run.workload.recompute.impl = RecomputeImpl::Reentrant;
  }
  {
    EmitCase& c = add("zero3-nvme", 1, 2, 3);
    OffloadOptimizer& o = c.run.ds.zero.offload_optimizer;
    o.device = OffloadDevice::Nvme;
    o.nvme_path = "/tmp";
    o.buffer_count = 5;
    o.pipeline_read = true;
    OffloadParam& p = c.run.ds.zero.offload_param;
    p.device = OffloadDevice::Nvme;
    p.nvme_path = "/tmp";
    p.buffer_count = 6;
    p.buffer_size = 700'000'000;
    p.max_in_cpu = 0;
  }
  {
    EmitCase& c = add("zero3-liger-flash", 1, 8, 3);
    c.run.workload.attention = Attention::Flash;
    c.run.workload.kernels.fused_linear_cross_entropy = c.run.workload.kernels.rms_norm = true;
    c.run.workload.recompute.offload = true;
    c.run.ds.zero.stage3_allgather_sequential = true;
    c.run.ds.zero.zero_hpz_partition_size = 4;
    c.run.ds.zero.zero_quantized_weights = true;
    c.run.ds.zero.memory_efficient_linear = false;
  }
  {
    EmitCase& c = add("zero3-bf16-states", 1, 8, 3);
    c.run.ds.bf16_master_weights_and_grads = c.run.ds.bf16_optimizer_states = true;
    c.run.ds.zero.stage3_model_persistence_threshold = 1'000'000;
    c.run.ds.zero.stage3_module_granularity_threshold = 1000;
    c.run.ds.zero.stage3_use_all_reduce_for_fetch_params = true;
  }
  {
    EmitCase& c = add("zero2-lora", 1, 2, 2);
    c.run.workload.finetune = Finetune::Lora;
    c.run.workload.lora_rank = 8;
    c.options.training = default_training(Finetune::Lora);
  }
  {
    EmitCase& c = add("zero3-qlora-accelerate", 1, 2, 3);
    c.run.workload.finetune = Finetune::Qlora;
    c.options.launcher = Launcher::Accelerate;
  }
  {
    EmitCase& c = add("zero3-two-nodes", 2, 8, 3);
    c.run.workload.finetune = Finetune::Freeze;
    c.run.workload.freeze_layers = 2;
    c.run.workload.attention = Attention::Eager;
    c.run.alloc_conf = "expandable_segments:True,max_split_size_mb:512";
    c.run.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
  }
  add("zero2-two-nodes-torchrun", 2, 4, 2).options.launcher = Launcher::Torchrun;
  add("zero3-two-nodes-accelerate", 2, 4, 3).options.launcher = Launcher::Accelerate;
  add("zero3-two-nodes-slurm", 2, 4, 3).options.launcher = Launcher::Slurm;
  {
    EmitCase& c = add("zero3-own-script", 1, 4, 3);
    c.options.script = "/opt/it's mine/finetune.py";
    c.options.model = "/models/my qwen";
  }
  {
    EmitCase& c = add("zero3-older-versions", 1, 4, 3);
    c.run.versions.deepspeed = {0, 16, 9};
    c.run.versions.switches = deepspeed_switches(c.run.versions.deepspeed);
    c.run.versions.torch = {2, 8, 0};
    c.run.versions.transformers = {4, 57, 6};
    c.run.ds.bf16_check_grad_overflow = false;
    c.run.ds.zero.offload_optimizer.pin_memory = c.run.ds.zero.offload_param.pin_memory =
        false;  // its default
    c.run.alloc_conf = "expandable_segments:True";
  }
  // For a real run on one GPU (validate/run_plans.sh): a high rate, so that a random model learns
  // in a few steps.
  const auto on_one_gpu = [&](const std::string& name, int stage, Launcher launcher) -> EmitCase& {
    EmitCase& c = add("gpu-" + name, 1, 1, stage);
    c.options.launcher = launcher;
    c.options.training.learning_rate = 3e-4;
    c.run.ds.gradient_accumulation_steps = 2;
    return c;
  };
  on_one_gpu("zero2", 2, Launcher::DeepSpeed);
  on_one_gpu("zero3", 3, Launcher::DeepSpeed);
  on_one_gpu("zero2-torchrun", 2, Launcher::Torchrun);
  on_one_gpu("zero3-accelerate", 3, Launcher::Accelerate);
  on_one_gpu("zero2-cpu-adam", 2, Launcher::DeepSpeed).run.ds.zero.offload_optimizer.device =
      OffloadDevice::Cpu;
  on_one_gpu("zero3-lora", 3, Launcher::DeepSpeed).run.workload.finetune = Finetune::Lora;
  on_one_gpu("zero2-qlora", 2, Launcher::DeepSpeed).run.workload.finetune = Finetune::Qlora;
  return all;
}

}  // namespace zplan
