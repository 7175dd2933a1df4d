// A DeepSpeed configuration as the engine sees it: every default resolved, nothing left at "auto".
// Key names are DeepSpeed's. Sizes of buckets and limits are elements, as in DeepSpeed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "units/units.h"

namespace zplan {

enum class Precision { Bf16, Fp16, Fp32 };
constexpr Bytes width(Precision p) { return {p == Precision::Fp32 ? 4 : 2}; }

enum class OffloadDevice { None, Cpu, Nvme };

struct OffloadOptimizer {
  OffloadDevice device = OffloadDevice::None;
  bool pin_memory = true;
  std::string nvme_path;
  std::int64_t buffer_count = 4;
  bool pipeline_read = false, pipeline_write = false, fast_init = false;
  double ratio = 1.0;
  friend bool operator==(const OffloadOptimizer&, const OffloadOptimizer&) = default;
};

struct OffloadParam {
  OffloadDevice device = OffloadDevice::None;
  bool pin_memory = true;
  std::string nvme_path;
  std::int64_t buffer_count = 5;
  std::int64_t buffer_size = 100'000'000;
  std::int64_t max_in_cpu = 1'000'000'000;
  friend bool operator==(const OffloadParam&, const OffloadParam&) = default;
};

struct ZeroConfig {
  int stage = 0;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  bool use_multi_rank_bucket_allreduce = true;
  bool overlap_comm = false;  // DeepSpeed's default: true in stage 3, false below
  bool round_robin_gradients = false;
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  OffloadOptimizer offload_optimizer;
  OffloadParam offload_param;
  // stage 3
  std::int64_t sub_group_size = 1'000'000'000;
  std::int64_t stage3_prefetch_bucket_size = 50'000'000;
  std::int64_t stage3_param_persistence_threshold = 100'000;
  std::int64_t stage3_model_persistence_threshold = std::numeric_limits<std::int64_t>::max();
  std::int64_t stage3_max_live_parameters = 1'000'000'000;
  std::int64_t stage3_max_reuse_distance = 1'000'000'000;
  std::int64_t stage3_module_granularity_threshold = 0;
  bool stage3_gather_16bit_weights_on_model_save = false;
  bool stage3_use_all_reduce_for_fetch_params = false;
  bool stage3_allgather_sequential = false;
  bool memory_efficient_linear = true;
  std::int64_t zero_hpz_partition_size = 1;
  bool zero_quantized_weights = false;
  bool zero_quantized_nontrainable_weights = false;
  bool zero_quantized_gradients = false;
  friend bool operator==(const ZeroConfig&, const ZeroConfig&) = default;
};

// Which optimizer steps the partition.
enum class OptimizerKind {
  DeepSpeedAdam,     // ds_config "optimizer": FusedAdam on the GPU, DeepSpeedCPUAdam when offloaded
  TorchAdamFused,    // torch.optim.AdamW(fused=True): the HF Trainer's default (two parameter groups there)
  TorchAdamForeach,  // torch.optim.AdamW(foreach=True)
  Adam8bit,          // bitsandbytes.optim.AdamW8bit
};

struct DsConfig {
  std::int64_t train_micro_batch_size_per_gpu = 1;
  std::int64_t gradient_accumulation_steps = 1;
  double gradient_clipping = 1.0;
  Precision precision = Precision::Bf16;            // bf16 / fp16 section; neither: fp32
  bool torch_autocast = false;
  std::optional<Precision> grad_accum_dtype;        // data_types; absent: the model's
  std::optional<Precision> communication_data_type;
  bool bf16_check_grad_overflow = true;
  bool bf16_master_weights_and_grads = false;
  bool bf16_optimizer_states = false;
  bool bf16_immediate_grad_update = false;
  bool zero_force_ds_cpu_optimizer = true;
  ZeroConfig zero;
  Precision accumulation_dtype() const { return grad_accum_dtype.value_or(precision); }
  friend bool operator==(const DsConfig&, const DsConfig&) = default;
};

}  // namespace zplan
