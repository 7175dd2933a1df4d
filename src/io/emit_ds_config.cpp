// ds_config.json: every key that has an effect in the plan's stage, with its number, in the order a
// person reads it. Keys without effect there and keys that the plan's DeepSpeed does not know are
// left out: unknown keys inside a section stop DeepSpeed, and a key without effect misleads.
#include "io/ds_config_reader.h"
#include "io/emit.h"
#include "io/json_text.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

const char* dtype_name(Precision p) {
  switch (p) {
    case Precision::Bf16:
      return "bf16";
    case Precision::Fp16:
      return "fp16";
    case Precision::Fp32:
      return "fp32";
  }
  return "";
}

const char* device_name(OffloadDevice device) {
  switch (device) {
    case OffloadDevice::None:
      return "none";
    case OffloadDevice::Cpu:
      return "cpu";
    case OffloadDevice::Nvme:
      return "nvme";
  }
  return "";
}

// A value that the Trainer fills in itself (transformers, HfTrainerDeepSpeedConfig).
Json filled(const Json& value, bool keep_auto) { return keep_auto ? Json("auto") : value; }

Json optimizer(const Training& t, bool keep_auto) {
  // AdamW: FusedAdam on the GPU, DeepSpeedCPUAdam when the optimizer is offloaded, one parameter
  // group in both.
  return {{"type", "AdamW"},
          {"params",
           {{"lr", filled(t.learning_rate, keep_auto)},
            {"betas", filled(Json::array({t.adam_beta1, t.adam_beta2}), keep_auto)},
            {"eps", filled(t.adam_epsilon, keep_auto)},
            {"weight_decay", filled(t.weight_decay, keep_auto)}}}};
}

Json bf16(const Run& run, bool keep_auto) {
  Json section = {{"enabled", filled(true, keep_auto)}};
  // The key came with the check; older versions do not check and ignore or refuse it.
  if (!run.ds.bf16_check_grad_overflow && run.versions.switches.bf16_overflow_check) {
    section["check_grad_overflow"] = false;
  }
  // Its default was true in older versions (0.16.9) and is false since 0.19.6.
  if (run.ds.bf16_immediate_grad_update || run.versions.deepspeed < Version{0, 19, 6}) {
    section["immediate_grad_update"] = run.ds.bf16_immediate_grad_update;
  }
  if (run.ds.bf16_master_weights_and_grads) section["bf16_master_weights_and_grads"] = true;
  if (run.ds.bf16_optimizer_states) section["bf16_optimizer_states"] = true;
  return section;
}

Json fp16(bool keep_auto) {
  // loss_scale 0 is dynamic scaling: from 2^16, doubled after each 1000 good steps, halved at an
  // overflow.
  return {{"enabled", filled(true, keep_auto)}, {"loss_scale", 0}, {"initial_scale_power", 16},
          {"loss_scale_window", 1000},          {"hysteresis", 2}, {"min_loss_scale", 1}};
}

Json offload_optimizer(const OffloadOptimizer& o, int stage) {
  Json section = {{"device", device_name(o.device)}, {"pin_memory", o.pin_memory}};
  if (o.device == OffloadDevice::Nvme) {
    section["nvme_path"] = o.nvme_path;
    section["buffer_count"] = o.buffer_count;
    section["pipeline_read"] = o.pipeline_read;
    section["pipeline_write"] = o.pipeline_write;
    section["fast_init"] = o.fast_init;
  }
  if (stage == 3 && o.ratio < 1) section["ratio"] = o.ratio;
  return section;
}

Json offload_param(const OffloadParam& o) {
  Json section = {{"device", device_name(o.device)}, {"pin_memory", o.pin_memory}};
  if (o.device == OffloadDevice::Nvme) {
    section["nvme_path"] = o.nvme_path;
    section["buffer_count"] = o.buffer_count;
    section["buffer_size"] = o.buffer_size;
    section["max_in_cpu"] = o.max_in_cpu;
  }
  return section;
}

// A size for which the Trainer has a formula.
Json sized(std::int64_t value, std::int64_t trainers, bool keep_auto) {
  return filled(value, keep_auto && value == trainers);
}

void add_stage_3(Json& section, const Run& run, bool keep_auto) {
  const ZeroConfig& z = run.ds.zero;
  const std::int64_t h = run.model.hidden;
  section["sub_group_size"] = z.sub_group_size;
  section["stage3_prefetch_bucket_size"] =
      sized(z.stage3_prefetch_bucket_size, hf_prefetch_bucket_size(h), keep_auto);
  section["stage3_param_persistence_threshold"] =
      sized(z.stage3_param_persistence_threshold, hf_persistence_threshold(h), keep_auto);
  const ZeroConfig defaults;
  if (z.stage3_model_persistence_threshold != defaults.stage3_model_persistence_threshold) {
    section["stage3_model_persistence_threshold"] = z.stage3_model_persistence_threshold;
  }
  section["stage3_max_live_parameters"] = z.stage3_max_live_parameters;
  section["stage3_max_reuse_distance"] = z.stage3_max_reuse_distance;
  if (z.stage3_module_granularity_threshold > 0) {
    section["stage3_module_granularity_threshold"] = z.stage3_module_granularity_threshold;
  }
  if (z.stage3_use_all_reduce_for_fetch_params)
    section["stage3_use_all_reduce_for_fetch_params"] = true;
  if (z.stage3_allgather_sequential) section["stage3_allgather_sequential"] = true;
  if (!z.memory_efficient_linear) section["memory_efficient_linear"] = false;
  if (z.zero_hpz_partition_size > 1) section["zero_hpz_partition_size"] = z.zero_hpz_partition_size;
  if (z.zero_quantized_weights) section["zero_quantized_weights"] = true;
  if (z.zero_quantized_nontrainable_weights) section["zero_quantized_nontrainable_weights"] = true;
  if (z.zero_quantized_gradients) section["zero_quantized_gradients"] = true;
  // Without it a save leaves only the ranks' shards, which nothing but DeepSpeed reads. Training
  // does not change.
  section["stage3_gather_16bit_weights_on_model_save"] = true;
}

Json zero_optimization(const Run& run, bool keep_auto) {
  const ZeroConfig& z = run.ds.zero;
  Json section = {{"stage", z.stage}};
  if (z.stage == 0) return section;
  section["contiguous_gradients"] = z.contiguous_gradients;
  section["overlap_comm"] = z.overlap_comm;
  section["reduce_scatter"] = z.reduce_scatter;
  section["reduce_bucket_size"] =
      sized(z.reduce_bucket_size, hf_reduce_bucket_size(run.model.hidden), keep_auto);
  if (z.stage == 3) {
    add_stage_3(section, run, keep_auto);
  } else {
    section["allgather_bucket_size"] = z.allgather_bucket_size;
    if (!z.use_multi_rank_bucket_allreduce) section["use_multi_rank_bucket_allreduce"] = false;
    if (z.round_robin_gradients) section["round_robin_gradients"] = true;
  }
  if (z.offload_optimizer.device != OffloadDevice::None) {
    section["offload_optimizer"] = offload_optimizer(z.offload_optimizer, z.stage);
  }
  if (z.stage == 3 && z.offload_param.device != OffloadDevice::None) {
    section["offload_param"] = offload_param(z.offload_param);
  }
  return section;
}

bool uses_nvme(const ZeroConfig& z) {
  return z.stage == 3 && (z.offload_optimizer.device == OffloadDevice::Nvme ||
                          z.offload_param.device == OffloadDevice::Nvme);
}

}  // namespace

std::string emit_ds_config(const Run& run, const EmitOptions& options) {
  const DsConfig& ds = run.ds;
  const bool keep_auto = options.keep_auto;
  Json file;
  file["train_batch_size"] =
      filled(ds.train_micro_batch_size_per_gpu * ds.gradient_accumulation_steps * run.world_size,
             keep_auto);
  file["train_micro_batch_size_per_gpu"] = filled(ds.train_micro_batch_size_per_gpu, keep_auto);
  file["gradient_accumulation_steps"] = filled(ds.gradient_accumulation_steps, keep_auto);
  file["gradient_clipping"] = filled(ds.gradient_clipping, keep_auto);
  if (run.workload.optimizer == OptimizerKind::DeepSpeedAdam) {
    file["optimizer"] = optimizer(options.training, keep_auto);
  } else {
    file["zero_allow_untested_optimizer"] =
        true;  // the Trainer's optimizer steps ZeRO's flat partitions
  }
  if (!ds.zero_force_ds_cpu_optimizer) file["zero_force_ds_cpu_optimizer"] = false;
  if (ds.precision == Precision::Bf16) file["bf16"] = bf16(run, keep_auto);
  if (ds.precision == Precision::Fp16) file["fp16"] = fp16(keep_auto);
  if (ds.torch_autocast) file["torch_autocast"] = {{"enabled", true}, {"dtype", "bfloat16"}};
  if (ds.grad_accum_dtype)
    file["data_types"] = {{"grad_accum_dtype", dtype_name(*ds.grad_accum_dtype)}};
  if (ds.communication_data_type)
    file["communication_data_type"] = dtype_name(*ds.communication_data_type);
  file["zero_optimization"] = zero_optimization(run, keep_auto);
  if (uses_nvme(ds.zero)) {  // DeepSpeed's defaults, in sight because a disk may want others
    file["aio"] = {{"block_size", 1048576},
                   {"queue_depth", 8},
                   {"intra_op_parallelism", 1},
                   {"single_submit", false},
                   {"overlap_events", true}};
  }
  file["wall_clock_breakdown"] = false;  // its timers synchronise the GPU at every phase
  return json_text(file) + "\n";
}

}  // namespace zplan
