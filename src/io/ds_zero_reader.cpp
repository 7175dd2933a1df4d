#include "io/ds_zero_reader.h"

#include <nlohmann/json.hpp>

#include "io/ds_section.h"

namespace zplan {
namespace {
using nlohmann::json;

// Wheels read: 0.16.9, 0.19.6, 0.19.8. A key that 0.16.9 lacks and 0.19.6 has is refused up to 0.16.9 only.
bool has_keys_of_0_19_6(const Versions& v) { return v.deepspeed > Version{0, 16, 9}; }
bool has_keys_of_0_19_8(const Versions& v) { return v.deepspeed > Version{0, 19, 6}; }

void deprecated(std::vector<Note>& notes, const std::string& old, const std::string& now) {
  notes.push_back({Note::Level::Warning, "deprecated-key", old + " is deprecated.", "write " + now});
}

// A feature whose memory zplan does not simulate: the figures are then those of a run without it.
void not_simulated(std::vector<Note>& notes, const std::string& key) {
  notes.push_back({Note::Level::Warning, "not-simulated", key + " is not simulated: the figures are without it.", ""});
}

OffloadDevice device(const DsSection& section) {
  const std::string name = section.text({"device"}, "none");
  if (name == "none") return OffloadDevice::None;
  if (name == "cpu") return OffloadDevice::Cpu;
  if (name == "nvme") return OffloadDevice::Nvme;
  section.object().fail("device", "'" + name + "' is not an offload device", "write none, cpu or nvme");
}

// Stage 3 only: below it nothing goes to disk (partition_parameters.py:_validate_remote_device,
// stage3.py:_configure_tensor_swapping).
void need_nvme_paths(const DsSection& zero, const ZeroConfig& config) {
  if (config.stage != 3) return;
  const auto need = [&](const char* key, OffloadDevice device, const std::string& path) {
    if (device == OffloadDevice::Nvme && path.empty()) {
      zero.object().object(key).fail("nvme_path", "offloading to nvme needs a path", "add \"nvme_path\"");
    }
  };
  need("offload_optimizer", config.offload_optimizer.device, config.offload_optimizer.nvme_path);
  need("offload_param", config.offload_param.device, config.offload_param.nvme_path);
}

OffloadOptimizer offload_optimizer(const DsSection& section, const Versions& versions, std::vector<Note>& notes) {
  OffloadOptimizer offload;
  offload.device = device(section);
  offload.pin_memory = section.flag({"pin_memory"}, versions.switches.offload_pin_memory_default);
  offload.nvme_path = section.text({"nvme_path"}, "");
  offload.buffer_count = section.integer({"buffer_count"}, 4);
  offload.pipeline_read = section.flag({"pipeline_read"}, false);
  offload.pipeline_write = section.flag({"pipeline_write"}, false);
  offload.fast_init = section.flag({"fast_init"}, false);
  offload.ratio = section.ratio({"ratio"}, 1.0);
  if (has_keys_of_0_19_6(versions)) {
    if (section.flag({"super_offload"}, false)) not_simulated(notes, "offload_optimizer.super_offload");
    section.ratio({"cpuadam_cores_perc"}, 0.8);
  }
  section.object().finish();
  return offload;
}

OffloadParam offload_param(const DsSection& section, const Versions& versions) {
  OffloadParam offload;
  offload.device = device(section);
  offload.pin_memory = section.flag({"pin_memory"}, versions.switches.offload_pin_memory_default);
  offload.nvme_path = section.text({"nvme_path"}, "");
  offload.buffer_count = section.integer({"buffer_count"}, 5);
  offload.buffer_size = section.integer({"buffer_size"}, 100'000'000);
  offload.max_in_cpu = section.integer({"max_in_cpu"}, 1'000'000'000);
  section.object().finish();
  return offload;
}

// config_utils.py:_process_deprecated_field
void offload_sections(const DsSection& zero, const Versions& versions, ZeroConfig& config, std::vector<Note>& notes) {
  const JsonObject& object = zero.object();
  const bool pinned = versions.switches.offload_pin_memory_default;
  config.offload_optimizer.pin_memory = config.offload_param.pin_memory = pinned;
  if (zero.has_section({"offload_optimizer"})) {
    config.offload_optimizer = offload_optimizer(DsSection(object.object("offload_optimizer")), versions, notes);
  }
  if (zero.has_section({"offload_param"})) {
    config.offload_param = offload_param(DsSection(object.object("offload_param")), versions);
  }
  if (zero.given({"cpu_offload"})) {
    if (zero.given({"offload_optimizer"})) {
      object.fail("cpu_offload", "stands beside offload_optimizer, which replaces it", "remove cpu_offload");
    }
    if (zero.maybe_flag({"cpu_offload"})) config.offload_optimizer.device = OffloadDevice::Cpu;
    deprecated(notes, "cpu_offload", "\"offload_optimizer\": {\"device\": \"cpu\"}");
  }
  if (zero.given({"cpu_offload_param"})) {
    if (zero.given({"offload_param"})) {
      object.fail("cpu_offload_param", "stands beside offload_param, which replaces it", "remove cpu_offload_param");
    }
    if (zero.maybe_flag({"cpu_offload_param"})) config.offload_param.device = OffloadDevice::Cpu;
    deprecated(notes, "cpu_offload_param", "\"offload_param\": {\"device\": \"cpu\"}");
  }
  if (zero.given({"cpu_offload_use_pin_memory"})) {
    zero.maybe_flag({"cpu_offload_use_pin_memory"});
    deprecated(notes, "cpu_offload_use_pin_memory, which has no effect,", "pin_memory in the offload sections");
  }
}

void buckets_and_limits(const DsSection& zero, const Versions& versions, ZeroConfig& config) {
  config.reduce_bucket_size =
      zero.integer({"reduce_bucket_size"}, config.reduce_bucket_size, has_keys_of_0_19_6(versions) ? 1 : 0);
  config.allgather_bucket_size = zero.integer({"allgather_bucket_size"}, config.allgather_bucket_size);
  config.sub_group_size = zero.integer({"sub_group_size"}, config.sub_group_size);
  config.stage3_prefetch_bucket_size =
      zero.integer({"stage3_prefetch_bucket_size", "prefetch_bucket_size"}, config.stage3_prefetch_bucket_size);
  config.stage3_param_persistence_threshold = zero.integer(
      {"stage3_param_persistence_threshold", "param_persistence_threshold"}, config.stage3_param_persistence_threshold);
  config.stage3_model_persistence_threshold = zero.integer(
      {"stage3_model_persistence_threshold", "model_persistence_threshold"}, config.stage3_model_persistence_threshold);
  config.stage3_max_live_parameters =
      zero.integer({"stage3_max_live_parameters", "max_live_parameters"}, config.stage3_max_live_parameters);
  config.stage3_max_reuse_distance =
      zero.integer({"stage3_max_reuse_distance", "max_reuse_distance"}, config.stage3_max_reuse_distance);
  config.stage3_module_granularity_threshold =
      zero.integer({"stage3_module_granularity_threshold", "module_granularity_threshold"}, 0,
                   std::numeric_limits<std::int64_t>::min());
  config.zero_hpz_partition_size = zero.integer({"zero_hpz_partition_size"}, 1);
}

void flags(const DsSection& zero, const Versions& versions, ZeroConfig& config, std::vector<Note>& notes) {
  config.contiguous_gradients = zero.flag({"contiguous_gradients"}, true);
  config.reduce_scatter = zero.flag({"reduce_scatter"}, true);
  config.use_multi_rank_bucket_allreduce = zero.flag({"use_multi_rank_bucket_allreduce"}, true);
  config.round_robin_gradients = zero.flag({"round_robin_gradients"}, false);
  const bool overlap_said = zero.object().has("overlap_comm");  // null: the default, which depends on the stage
  config.overlap_comm = overlap_said ? zero.flag({"overlap_comm"}, false) : config.stage == 3;
  config.stage3_gather_16bit_weights_on_model_save =
      zero.flag({"stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save"}, false);
  config.stage3_use_all_reduce_for_fetch_params =
      zero.flag({"stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params"}, false);
  config.memory_efficient_linear = zero.flag({"memory_efficient_linear"}, true);
  config.zero_quantized_weights = zero.flag({"zero_quantized_weights"}, false);
  config.zero_quantized_nontrainable_weights = zero.flag({"zero_quantized_nontrainable_weights"}, false);
  config.zero_quantized_gradients = zero.flag({"zero_quantized_gradients"}, false);
  for (const char* of_no_weight : {"allgather_partitions", "load_from_fp32_weights", "elastic_checkpoint",
                                   "ignore_unused_parameters", "pipeline_loading_checkpoint", "override_module_apply",
                                   "log_trace_cache_warnings"}) {
    zero.flag({of_no_weight}, false);
  }
  if (zero.flag({"legacy_stage1"}, false)) {
    zero.object().fail("legacy_stage1", "DeepSpeed refuses the old stage 1", "remove the key");
  }
  if (zero.given({"stage3_gather_fp16_weights_on_model_save"})) {
    if (zero.given({"stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save"})) {
      zero.object().fail("stage3_gather_fp16_weights_on_model_save",
                         "stands beside stage3_gather_16bit_weights_on_model_save, which replaces it",
                         "remove stage3_gather_fp16_weights_on_model_save");
    }
    config.stage3_gather_16bit_weights_on_model_save = zero.flag({"stage3_gather_fp16_weights_on_model_save"}, false);
    deprecated(notes, "stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save");
  }
  if (has_keys_of_0_19_6(versions)) {
    config.stage3_allgather_sequential =
        zero.flag({"stage3_allgather_sequential", "allgather_sequential"}, false);
    zero.flag({"enable_sanity_checks"}, false);
    zero.flag({"save_muon_momentum_buffer_in_memory"}, false);
    if (zero.given({"leaf_module"})) zero.object().ignore("leaf_module");
    if (zero.has_section({"zenflow"})) not_simulated(notes, "zero_optimization.zenflow");
  }
  if (has_keys_of_0_19_8(versions)) {
    if (!zero.flag({"compute_grad_norm"}, true)) {
      if (config.stage != 1 && config.stage != 2) {
        zero.object().fail("compute_grad_norm", "false is for stages 1 and 2 only", "remove the key");
      }
      not_simulated(notes, "zero_optimization.compute_grad_norm: false");
    }
    if (zero.flag({"parameter_alignment"}, false)) not_simulated(notes, "zero_optimization.parameter_alignment");
  }
}

// Removed in 0.19.8, where they raise by mere presence (runtime/config.py:_reject_removed_config_keys).
void removed_keys(const DsSection& zero, const Versions& versions, std::vector<Note>& notes) {
  for (const char* key : {"mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param"}) {
    if (!zero.object().given(key)) continue;
    if (versions.switches.config_keys_removed_0_19_8) {
      zero.object().fail(key, "DeepSpeed 0.19.8 removed it and refuses the key, whatever its value", "remove the key");
    }
    const json& value = zero.object().raw(key);
    if (value.is_null() || value == false || (value.is_number() && value < 0)) continue;
    not_simulated(notes, std::string("zero_optimization.") + key);
  }
}

}  // namespace

ZeroConfig read_zero(const JsonObject& root, const Versions& versions, std::vector<Note>& notes) {
  ZeroConfig config;
  config.offload_optimizer.pin_memory = config.offload_param.pin_memory = versions.switches.offload_pin_memory_default;
  if (!root.given("zero_optimization")) return config;
  if (root.raw("zero_optimization").is_boolean()) {  // runtime/zero/config.py:read_zero_config_deprecated
    config.stage = root.flag("zero_optimization") ? 1 : 0;
    if (config.stage == 1) config.allgather_bucket_size = root.count_or("allgather_size", 500'000'000);
    deprecated(notes, "zero_optimization as true or false", "\"zero_optimization\": {\"stage\": ...}");
    return config;
  }
  const DsSection zero(root.object("zero_optimization"));
  config.stage = static_cast<int>(zero.integer({"stage"}, 0));
  if (config.stage > 3) {
    zero.object().fail("stage", std::to_string(config.stage) + " is not a ZeRO stage", "write 0, 1, 2 or 3");
  }
  removed_keys(zero, versions, notes);
  buckets_and_limits(zero, versions, config);
  flags(zero, versions, config, notes);
  offload_sections(zero, versions, config, notes);
  zero.object().finish();
  need_nvme_paths(zero, config);
  if (config.offload_optimizer.ratio < 1 && config.stage != 3) {
    zero.object().object("offload_optimizer").fail("ratio", "a part of the optimizer can be offloaded in stage 3 only",
                                                   "use stage 3, or remove ratio");
  }
  return config;
}

}  // namespace zplan
