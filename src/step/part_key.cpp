#include "step/part_key.h"

namespace zplan {
namespace {

// What the model does between the calls is none of the engine's business: the schedule has all that it hears of it.
void drop_model_settings(DsConfig& ds, Workload& workload) {
  const Workload usual;
  ds.train_micro_batch_size_per_gpu = ds.gradient_accumulation_steps = 1;
  workload.seq_len = 0;
  workload.attention = usual.attention;
  workload.kernels = usual.kernels;
  workload.attention_mask = usual.attention_mask;
  workload.eval_after = usual.eval_after;
}

}  // namespace

std::size_t PartKeyHash::operator()(const PartKey& key) const {
  const auto& z = key.ds.zero;
  const auto& w = key.workload;
  std::size_t hash = key.schedule;
  for (const std::int64_t n :
       {key.ds.train_micro_batch_size_per_gpu, key.ds.gradient_accumulation_steps, w.seq_len, w.recompute.every,
        z.reduce_bucket_size, z.sub_group_size, z.stage3_prefetch_bucket_size, z.stage3_param_persistence_threshold,
        z.stage3_max_live_parameters, z.stage3_max_reuse_distance, key.rank, std::int64_t{z.stage},
        static_cast<std::int64_t>(z.offload_optimizer.device), static_cast<std::int64_t>(z.offload_param.device),
        std::int64_t{z.overlap_comm}, std::int64_t{z.stage3_allgather_sequential},
        std::int64_t{w.kernels.fused_linear_cross_entropy}}) {
    hash = (hash ^ static_cast<std::size_t>(n)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// The script asks for the stage, which engine it is under and whose linear it calls, never for what that engine is set
// to.
PartKey key_of_model(const Run& run) {
  PartKey key{run.ds, run.workload, 0, run.steps, 0};
  key.ds.zero = {};
  key.ds.zero.stage = run.ds.zero.stage;
  key.ds.zero.offload_optimizer.device = run.ds.zero.offload_optimizer.device;
  key.ds.zero.memory_efficient_linear = run.ds.zero.memory_efficient_linear;
  key.ds.gradient_clipping = 0;
  key.workload.optimizer = {};
  return key;
}

PartKey key_of_weights(const Run& run, std::size_t schedule) {
  PartKey key{run.ds, run.workload, 0, 0, schedule};
  drop_model_settings(key.ds, key.workload);
  const ZeroConfig usual;
  auto& z = key.ds.zero;
  z.overlap_comm = usual.overlap_comm;  // another stream, the same bytes
  z.contiguous_gradients = usual.contiguous_gradients;
  z.reduce_scatter = usual.reduce_scatter;
  z.reduce_bucket_size = usual.reduce_bucket_size;
  z.allgather_bucket_size = usual.allgather_bucket_size;
  z.sub_group_size = usual.sub_group_size;
  z.offload_optimizer = {};
  key.ds.gradient_clipping = 0;
  key.ds.grad_accum_dtype.reset();
  key.workload.optimizer = {};
  key.workload.parameter_groups = 1;
  return key;
}

PartKey key_of_states(const Run& run, std::size_t schedule) {
  PartKey key{run.ds, run.workload, run.rank, 0, schedule};
  drop_model_settings(key.ds, key.workload);
  key.workload.recompute = {};
  const ZeroConfig usual;
  auto& z = key.ds.zero;
  z.stage3_prefetch_bucket_size = usual.stage3_prefetch_bucket_size;
  z.stage3_param_persistence_threshold = usual.stage3_param_persistence_threshold;
  z.stage3_model_persistence_threshold = usual.stage3_model_persistence_threshold;
  z.stage3_max_live_parameters = usual.stage3_max_live_parameters;
  z.stage3_max_reuse_distance = usual.stage3_max_reuse_distance;
  z.stage3_allgather_sequential = usual.stage3_allgather_sequential;
  return key;
}

Run run_of(const PartKey& key, Run run) {
  run.ds = key.ds;
  run.workload = key.workload;
  run.rank = key.rank;
  run.steps = key.steps;
  run.alloc_conf.clear();
  return run;
}

}  // namespace zplan
