#include "spec/versions.h"

#include <cstdio>

#include "spec/error.h"

namespace zplan {

Version parse_version(const std::string& text, const std::string& where) {
  Version v;
  const int got = std::sscanf(text.c_str(), "%d.%d.%d", &v.major, &v.minor, &v.patch);
  if (got < 1 || v.major < 0 || v.minor < 0 || v.patch < 0) {
    throw InputError(where, "'" + text + "' is not a version", "write it as 0.19.8 or 2.11");
  }
  return v;
}

std::string text(const Version& v) {
  return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

DeepSpeedSwitches deepspeed_switches(const Version& version) {
  DeepSpeedSwitches s;
  if (version < Version{0, 19, 6}) {
    // Read in 0.16.9; where between the two a behaviour changed was looked up only for the defaults.
    s.overflow_check_scalar = s.bf16_overflow_check = s.flatten_on_device = false;
    s.bf16_stage0_fp16_wrapper = version >= Version{0, 18, 5};
    s.flatten_on_device = version >= Version{0, 18, 7};
    s.bf16_overflow_check = version >= Version{0, 19, 3};
    s.master_from_converted = s.single_gather_in_place = s.buckets_at_first_hook = s.overlap_record_stream = false;
    s.offload_h2d_staging = s.master_pin_follows_flag = s.offload_ga_writeback = false;
    s.z3_offload_async_d2h = s.release_backward_leftovers = s.recompute_frozen_release = false;
    s.mem_efficient_linear_module = false;
    s.engine_casts_module = version < Version{0, 19, 2};
    s.trace_lengths_compared = version >= Version{0, 17, 6};
    s.default_leaf_modules = version >= Version{0, 18, 0};
    s.engine_keeps_losses = s.init_resets_peaks = true;
    s.offload_accumulates_always = version < Version{0, 18, 10};
    s.skipped_step_keeps_gradients = version < Version{0, 17, 1};
    s.gradient_clipping_default = version >= Version{0, 19, 3} ? 1.0 : 0.0;
    s.offload_pin_memory_default = version >= Version{0, 19, 5};
  }
  if (version >= Version{0, 19, 8}) {
    s.norm_before_scale_update = s.fp32_compact_grad_partition = s.stage1_fp32_bucket = true;
    s.offload_clone_oversized_grad = s.reduce_result_in_comm_dtype = true;
    s.bf16_immediate_frees_grad = s.config_keys_removed_0_19_8 = true;
  }
  return s;
}

Versions default_versions() {
  Versions v;
  v.switches = deepspeed_switches(v.deepspeed);
  return v;
}

}  // namespace zplan
