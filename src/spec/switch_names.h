// The names of DeepSpeed's version switches, as records ("version_switches") and results write them.
#pragma once

#include <array>

#include "spec/versions.h"

namespace zplan {

struct SwitchName {
  const char* name;
  bool DeepSpeedSwitches::*member;
};

inline constexpr std::array switch_names = {
    SwitchName{"overflow_check_scalar", &DeepSpeedSwitches::overflow_check_scalar},
    SwitchName{"bf16_overflow_check", &DeepSpeedSwitches::bf16_overflow_check},
    SwitchName{"bf16_stage0_fp16_wrapper", &DeepSpeedSwitches::bf16_stage0_fp16_wrapper},
    SwitchName{"flatten_on_device", &DeepSpeedSwitches::flatten_on_device},
    SwitchName{"master_from_converted", &DeepSpeedSwitches::master_from_converted},
    SwitchName{"single_gather_in_place", &DeepSpeedSwitches::single_gather_in_place},
    SwitchName{"buckets_at_first_hook", &DeepSpeedSwitches::buckets_at_first_hook},
    SwitchName{"overlap_record_stream", &DeepSpeedSwitches::overlap_record_stream},
    SwitchName{"offload_h2d_staging", &DeepSpeedSwitches::offload_h2d_staging},
    SwitchName{"master_pin_follows_flag", &DeepSpeedSwitches::master_pin_follows_flag},
    SwitchName{"offload_ga_writeback", &DeepSpeedSwitches::offload_ga_writeback},
    SwitchName{"z3_offload_async_d2h", &DeepSpeedSwitches::z3_offload_async_d2h},
    SwitchName{"release_backward_leftovers", &DeepSpeedSwitches::release_backward_leftovers},
    SwitchName{"recompute_frozen_release", &DeepSpeedSwitches::recompute_frozen_release},
    SwitchName{"mem_efficient_linear_module", &DeepSpeedSwitches::mem_efficient_linear_module},
    SwitchName{"default_leaf_modules", &DeepSpeedSwitches::default_leaf_modules},
    SwitchName{"init_resets_peaks", &DeepSpeedSwitches::init_resets_peaks},
    SwitchName{"norm_before_scale_update", &DeepSpeedSwitches::norm_before_scale_update},
    SwitchName{"fp32_compact_grad_partition", &DeepSpeedSwitches::fp32_compact_grad_partition},
    SwitchName{"stage1_fp32_bucket", &DeepSpeedSwitches::stage1_fp32_bucket},
    SwitchName{"offload_clone_oversized_grad", &DeepSpeedSwitches::offload_clone_oversized_grad},
    SwitchName{"reduce_result_in_comm_dtype", &DeepSpeedSwitches::reduce_result_in_comm_dtype},
    SwitchName{"config_keys_removed_0_19_8", &DeepSpeedSwitches::config_keys_removed_0_19_8},
    SwitchName{"offload_pin_memory_default", &DeepSpeedSwitches::offload_pin_memory_default},
};

}  // namespace zplan
