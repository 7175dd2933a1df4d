// Writes the files of plans made by hand, one folder each, and beside them expected.json: what the
// plan means, field by field, without the emitter's help. tests/python feeds both to the real
// programs.
//   zplan_emit_fixture <folder>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/io/emit_plans.h"

using namespace zplan;

namespace {

std::string dtype(Precision p) {
  return p == Precision::Bf16 ? "bf16" : p == Precision::Fp16 ? "fp16" : "fp32";
}

nlohmann::json expected(const EmitCase& c) {
  const DsConfig& ds = c.run.ds;
  const ZeroConfig& z = ds.zero;
  const Workload& w = c.run.workload;
  nlohmann::json zero = {{"stage", z.stage}};
  if (z.stage > 0) {
    zero.update({{"contiguous_gradients", z.contiguous_gradients},
                 {"reduce_scatter", z.reduce_scatter},
                 {"overlap_comm", z.overlap_comm},
                 {"reduce_bucket_size", z.reduce_bucket_size}});
  }
  if (z.stage == 1 || z.stage == 2) {
    zero.update({{"allgather_bucket_size", z.allgather_bucket_size},
                 {"round_robin_gradients", z.round_robin_gradients},
                 {"use_multi_rank_bucket_allreduce", z.use_multi_rank_bucket_allreduce}});
  }
  if (z.stage == 3) {
    zero.update({{"sub_group_size", z.sub_group_size},
                 {"prefetch_bucket_size", z.stage3_prefetch_bucket_size},
                 {"param_persistence_threshold", z.stage3_param_persistence_threshold},
                 {"model_persistence_threshold", z.stage3_model_persistence_threshold},
                 {"max_live_parameters", z.stage3_max_live_parameters},
                 {"max_reuse_distance", z.stage3_max_reuse_distance},
                 {"module_granularity_threshold", z.stage3_module_granularity_threshold},
                 {"use_all_reduce_for_fetch_params", z.stage3_use_all_reduce_for_fetch_params},
                 {"allgather_sequential", z.stage3_allgather_sequential},
                 {"memory_efficient_linear", z.memory_efficient_linear},
                 {"zero_hpz_partition_size", z.zero_hpz_partition_size},
                 {"zero_quantized_weights", z.zero_quantized_weights},
                 {"zero_quantized_nontrainable_weights", z.zero_quantized_nontrainable_weights},
                 {"zero_quantized_gradients", z.zero_quantized_gradients},
                 {"gather_16bit_weights_on_model_save", true}});
  }
  const auto device = [](OffloadDevice d) { return d == OffloadDevice::Nvme ? "nvme" : "cpu"; };
  nlohmann::json optimizer_offload, param_offload;
  if (const auto& o = z.offload_optimizer; o.device != OffloadDevice::None) {
    optimizer_offload = {{"device", device(o.device)},
                         {"pin_memory", o.pin_memory},
                         {"ratio", o.ratio},
                         {"buffer_count", o.buffer_count},
                         {"pipeline_read", o.pipeline_read},
                         {"pipeline_write", o.pipeline_write},
                         {"fast_init", o.fast_init}};
  }
  if (const auto& o = z.offload_param; o.device != OffloadDevice::None) {
    param_offload = {{"device", device(o.device)},
                     {"pin_memory", o.pin_memory},
                     {"buffer_count", o.buffer_count},
                     {"buffer_size", o.buffer_size},
                     {"max_in_cpu", o.max_in_cpu}};
  }
  return {{"world_size", c.cluster.world_size()},
          {"gpus_per_node", c.cluster.node.gpus},
          {"nodes", c.cluster.nodes},
          {"micro_batch", ds.train_micro_batch_size_per_gpu},
          {"accumulation", ds.gradient_accumulation_steps},
          {"gradient_clipping", ds.gradient_clipping},
          {"precision", dtype(ds.precision)},
          {"grad_accum_dtype",
           ds.grad_accum_dtype ? nlohmann::json(dtype(*ds.grad_accum_dtype)) : nlohmann::json()},
          {"bf16_check_grad_overflow", ds.bf16_check_grad_overflow},
          {"bf16_states", ds.bf16_optimizer_states},
          {"deepspeed_optimizer", w.optimizer == OptimizerKind::DeepSpeedAdam},
          {"learning_rate", c.options.training.learning_rate},
          {"zero", zero},
          {"offload_optimizer", optimizer_offload},
          {"offload_param", param_offload},
          {"recompute_every", w.recompute.every},
          {"reentrant", w.recompute.impl == RecomputeImpl::Reentrant},
          {"liger", w.kernels.any()},
          {"alloc_conf", c.run.alloc_conf},
          {"keep_auto", c.options.keep_auto},
          {"own_script", c.options.script},
          {"deepspeed", text(c.run.versions.deepspeed)},
          {"transformers_major", c.run.versions.transformers.major}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const EmitCase& c : emit_cases()) {
    const std::string folder = std::string(argv[1]) + "/" + c.name;
    std::filesystem::create_directories(folder);
    std::vector<OutputFile> files = emit_files(c.run, c.cluster, c.options);
    files.push_back({"expected.json", expected(c).dump(2), false});
    write_files(folder, files);
  }
  return 0;
}
