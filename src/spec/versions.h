// Versions of the programs whose behaviour is simulated, and what changed between them.
// A difference is a named switch, resolved here once; the simulator asks the switch, never the version.
#pragma once

#include <compare>
#include <string>

namespace zplan {

struct Version {
  int major = 0, minor = 0, patch = 0;
  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};
// "0.19.6", "2.11.0+cu130", "5". Throws InputError.
Version parse_version(const std::string& text, const std::string& where);
std::string text(const Version& version);

// DeepSpeed's behaviour. The default-constructed value is 0.19.6 and later. Sources: docs/memory-model.md#versions.
struct DeepSpeedSwitches {
  bool overflow_check_scalar = true;       // amax/amin; before 0.19.6: 11 B x slice (RU:has_inf_or_nan)
  bool bf16_overflow_check = true;         // bf16 is checked too (S12:step)
  bool bf16_stage0_fp16_wrapper = true;    // before: BF16_Optimizer for bf16 without ZeRO (ENG)
  bool flatten_on_device = true;           // stages 1/2 flatten on the GPU if it fits (S12:__init__)
  bool master_from_converted = true;       // stage 3 master: fp32 conversion and a clone (S3)
  bool single_gather_in_place = true;      // stage 3: a lone blocking gather is the parameter (PP:_allgather_params)
  bool buckets_at_first_hook = true;       // before: ahead of the loss backward (S12:setup_buckets)
  bool overlap_record_stream = true;       // R(cat), R(owned) after the copy back (S12)
  bool offload_h2d_staging = true;         // host staging instead of a 4*part GPU buffer (S12)
  bool master_pin_follows_flag = true;     // before: stages 1/2 always pin the master
  bool offload_ga_writeback = true;
  bool offload_accumulates_always = false; // with accumulation, in stage 1 too (S12:copy_grads_in_partition)
  bool z3_offload_async_d2h = true;
  bool release_backward_leftovers = true;  // embedding released at the end of backward (PC)
  bool recompute_frozen_release = true;
  bool mem_efficient_linear_module = true;
  bool skipped_step_keeps_gradients = false; // stages 1/2: the first one's, for ever, in a dict of the fragments (S12:step)
  bool default_leaf_modules = true;        // before 0.18.0 a mixture of experts is no leaf (leaf_module_config.py)
  // 0.19.8
  bool norm_before_scale_update = false;       // order and 36 small events of the step
  bool fp32_compact_grad_partition = false;    // 4*part buffer instead of cat + cast (S12)
  bool stage1_fp32_bucket = false;
  bool offload_clone_oversized_grad = false;
  bool reduce_result_in_comm_dtype = false;
  bool engine_casts_module = false;            // before 0.19.2 half()/bfloat16(): buffers too, and what zero.Init built (ENG)
  bool trace_lengths_compared = true;          // stage 3: before a trace is, its length (RU:get_lst_from_rank0)
  bool init_resets_peaks = false;              // initialize ends by resetting rank 0's peaks (RU:see_memory_usage)
  bool engine_keeps_losses = false;            // ENG:backward divides only with accumulation and keeps the mean loss
  bool bf16_immediate_frees_grad = false;      // BF16_Optimizer, immediate_grad_update: the hook drops the gradient
  bool config_keys_removed_0_19_8 = false;     // MiCS, LoCo, amp, ... raise by mere presence
  // defaults of keys
  double gradient_clipping_default = 1.0;
  bool offload_pin_memory_default = true;
  friend bool operator==(const DeepSpeedSwitches&, const DeepSpeedSwitches&) = default;
};
DeepSpeedSwitches deepspeed_switches(const Version& version);

// transformers: what the Trainer's gradient_checkpointing_kwargs can say (every_n_layers, offload), and since when.
inline constexpr Version first_checkpointing_every_n_layers{5, 16, 0};
inline constexpr Version first_checkpoint_offload{5, 17, 0};

struct Versions {
  Version deepspeed{0, 19, 8};
  Version torch{2, 11, 0};
  Version transformers{5, 17, 0};
  DeepSpeedSwitches switches;  // of `deepspeed`, unless a record sets one differently
  friend bool operator==(const Versions&, const Versions&) = default;
};
Versions default_versions();

}  // namespace zplan
