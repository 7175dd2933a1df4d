#include "io/ds_precision_reader.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "io/ds_section.h"
#include "io/lower_case.h"

namespace zplan {
namespace {
using nlohmann::json;

// Up to 0.16.9 the two sections were plain dictionaries: unknown keys passed, nothing was checked.
bool strict_sections(const Versions& v) { return v.deepspeed > Version{0, 16, 9}; }

const char* short_text(Precision p) {
  switch (p) {
    case Precision::Bf16: return "bf16";
    case Precision::Fp16: return "fp16";
    case Precision::Fp32: return "fp32";
  }
  return "";
}

bool stage_1_to_3(const DsConfig& config) { return config.zero.stage >= 1; }

void read_bf16(const JsonObject& root, const Versions& versions, DsConfig& config, bool& enabled) {
  const char* key = root.has("bf16") ? "bf16" : "bfloat16";  // runtime/precision_config.py:get_bfloat16_config
  root.ignore("bf16");
  root.ignore("bfloat16");
  config.bf16_check_grad_overflow = versions.switches.bf16_overflow_check;
  if (!root.has(key)) return;
  const DsSection section(root.object(key));
  const JsonObject& object = section.object();
  enabled = section.flag({"enabled"}, false);
  // 0.16.9 defaults to true where the section stands.
  config.bf16_immediate_grad_update = section.flag({"immediate_grad_update"}, !strict_sections(versions));
  if (!strict_sections(versions)) return;
  config.bf16_check_grad_overflow =
      section.flag({"check_grad_overflow"}, true) && versions.switches.bf16_overflow_check;
  config.bf16_master_weights_and_grads = section.flag({"bf16_master_weights_and_grads"}, false);
  config.bf16_optimizer_states = section.flag({"bf16_optimizer_states"}, false);
  object.finish();
  if (config.bf16_master_weights_and_grads && !stage_1_to_3(config)) {
    object.fail("bf16_master_weights_and_grads", "needs ZeRO stage 1, 2 or 3", "use a ZeRO stage, or remove it");
  }
  if (config.bf16_optimizer_states && !config.bf16_master_weights_and_grads) {
    object.fail("bf16_optimizer_states", "needs bf16_master_weights_and_grads", "set both, or neither");
  }
  const bool on_cpu = config.zero.offload_optimizer.device != OffloadDevice::None;
  if (config.bf16_master_weights_and_grads && !on_cpu && !config.bf16_optimizer_states) {
    object.fail("bf16_master_weights_and_grads",
                "needs the optimizer on the CPU, or bf16_optimizer_states on the GPU",
                "offload the optimizer, or set bf16_optimizer_states");
  }
}

void read_fp16(const JsonObject& root, const Versions& versions, const DsConfig& config, bool& enabled,
               std::vector<Note>& notes) {
  if (!root.has("fp16")) return;
  const DsSection section(root.object("fp16"));
  const JsonObject& object = section.object();
  enabled = section.flag({"enabled"}, false);
  if (!strict_sections(versions)) {
    if (enabled && section.flag({"fp16_master_weights_and_grads"}, false) && config.zero.stage != 2) {
      object.fail("fp16_master_weights_and_grads", "needs ZeRO stage 2 in this version of DeepSpeed", "remove it");
    }
    return;
  }
  section.flag({"auto_cast"}, false);
  for (const char* key : {"loss_scale", "loss_scale_window", "min_loss_scale"}) {  // a bool would pass for 0 or 1
    if (object.given(key) && object.raw(key).is_boolean()) {
      object.fail(key, "expected a number, found " + object.raw(key).dump(), "write a number");
    }
  }
  const bool dynamic = object.number_or("loss_scale", 0) == 0;
  const std::int64_t any = std::numeric_limits<std::int64_t>::min();
  section.integer({"initial_scale_power"}, 16, any);
  section.integer({"loss_scale_window"}, 1000, enabled && dynamic ? 1 : any);
  section.integer({"hysteresis"}, 2, any);
  section.flag({"consecutive_hysteresis"}, false);
  section.integer({"min_loss_scale"}, 1, enabled && dynamic ? 1 : any);
  const bool master = section.flag({"fp16_master_weights_and_grads"}, false);
  object.finish();
  if (!master) return;
  if (!stage_1_to_3(config)) {
    object.fail("fp16_master_weights_and_grads", "needs ZeRO stage 1, 2 or 3", "use a ZeRO stage, or remove it");
  }
  if (config.zero.offload_optimizer.device == OffloadDevice::None) {
    object.fail("fp16_master_weights_and_grads", "needs the optimizer on the CPU (DeepSpeedCPUAdam)",
                "offload the optimizer, or remove it");
  }
  notes.push_back({Note::Level::Warning, "not-simulated",
                   "fp16.fp16_master_weights_and_grads is not simulated: the figures are without it.", ""});
}

// runtime/config.py:DtypeEnum's names. Absent or null: nothing.
std::optional<Precision> dtype(const JsonObject& object, const char* key) {
  if (!object.has(key)) return std::nullopt;
  std::string name = object.text(key);
  if (name.rfind("torch.", 0) == 0) name = name.substr(6);
  for (const char* word : {"bf16", "bfloat16"}) if (name == word) return Precision::Bf16;
  for (const char* word : {"fp16", "float16", "half"}) if (name == word) return Precision::Fp16;
  for (const char* word : {"fp32", "float32", "float"}) if (name == word) return Precision::Fp32;
  object.fail(key, "'" + name + "' is not a type", "write bf16, fp16 or fp32");
}

// runtime/engine.py:get_data_types and _do_optimizer_sanity_check
void read_data_types(const JsonObject& root, const Versions& versions, DsConfig& config) {
  std::optional<Precision> asked;
  if (root.has("data_types")) {
    const JsonObject object = root.object("data_types");
    asked = dtype(object, "grad_accum_dtype");
    if (const auto params = dtype(object, "param_dtype"); strict_sections(versions) && params && *params != config.precision) {
      object.fail("param_dtype", std::string("differs from the precision of the run, ") + short_text(config.precision),
                  "remove it");
    }
  }
  const bool bf16_stage0_in_fp32 =
      !versions.switches.bf16_stage0_fp16_wrapper && config.zero.stage == 0 && config.precision == Precision::Bf16;
  if (bf16_stage0_in_fp32 && !asked) asked = Precision::Fp32;
  config.grad_accum_dtype = asked;
  const Precision wanted = bf16_stage0_in_fp32 ? Precision::Fp32 : config.precision;
  if (config.zero.stage == 0 && config.accumulation_dtype() != wanted) {
    root.object("data_types").fail("grad_accum_dtype",
                                   std::string("without ZeRO gradients of a ") + short_text(config.precision) +
                                       " run are accumulated in " + short_text(wanted),
                                   "remove it, or use a ZeRO stage");
  }
}

}  // namespace

void read_precision(const JsonObject& root, const Versions& versions, DsConfig& config, std::vector<Note>& notes) {
  bool bf16 = false, fp16 = false;
  read_bf16(root, versions, config, bf16);
  read_fp16(root, versions, config, fp16, notes);
  if (bf16 && fp16) {
    root.fail("fp16", "fp16 and bf16 are both enabled", "enable one of them");
  }
  config.precision = bf16 ? Precision::Bf16 : fp16 ? Precision::Fp16 : Precision::Fp32;
  read_data_types(root, versions, config);
  if (root.has("torch_autocast")) {
    config.torch_autocast = root.object("torch_autocast").flag_or("enabled", false);
    dtype(root.object("torch_autocast"), "dtype");
  }
  if (root.has("communication_data_type")) {
    const std::string name = lower_case(root.text("communication_data_type"));
    if (name != "fp32" && name != "fp16" && name != "bf16") {
      root.fail("communication_data_type", "'" + name + "' is not a type", "write fp32, fp16 or bf16");
    }
    config.communication_data_type =
        name == "fp32" ? Precision::Fp32 : name == "fp16" ? Precision::Fp16 : Precision::Bf16;
  }
}

}  // namespace zplan
