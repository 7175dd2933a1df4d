// Rules about precision, optimizer, activations, adapters and versions (B, D, E, F, H of docs/files.md#lint).
#include <nlohmann/json.hpp>

#include "io/lint_rules.h"
#include "io/names.h"
#include "plan/activation_bound.h"
#include "units/text.h"

namespace zplan {
namespace {
using Level = Finding::Level;

Finding finding(Level level, const char* rule, const std::string& where, const std::string& why, const std::string& fix,
                const std::string& patch = "", std::optional<Bytes> bytes = std::nullopt) {
  return {level, rule, where, "", why, fix, patch, bytes};
}

bool lora(const LintView& v) { return v.run.workload.adapted(); }

void precision(const LintView& v, Findings& found) {
  const DsConfig& ds = v.ds;
  const Gpu& gpu = v.run.gpu;
  if (ds.precision == Precision::Bf16 && !gpu.bf16) {
    found.push_back(finding(Level::Error, "B04", "/bf16/enabled", "The " + gpu.name + " does not do bf16: DeepSpeed refuses.",
                            "use fp16", R"({"bf16": null, "fp16": {"enabled": true}})"));
  }
  if (ds.precision == Precision::Fp16 && gpu.bf16) {
    found.push_back(finding(Level::Info, "B05", "/fp16/enabled",
                            "Models published in bf16 can overflow in fp16, and this GPU does both.", "bf16",
                            R"({"fp16": null, "bf16": {"enabled": true}})"));
  }
  if (ds.precision == Precision::Fp16 && (v.zero.stage == 1 || v.zero.stage == 2) &&
      v.zero.offload_optimizer.device == OffloadDevice::None && v.run.versions.switches.skipped_step_keeps_gradients) {
    found.push_back(finding(Level::Warning, "B14", "/fp16/enabled",
                            "The first step that the loss scaler skips keeps its gradients for the whole run (before DeepSpeed "
                            "0.17.1, #6976); with a scale that starts at 65,536 it is often step 0.",
                            "use DeepSpeed 0.17.1 or later, or start with a lower fp16.initial_scale_power"));
  }
  if (ds.precision == Precision::Fp32 && !ds.torch_autocast) {
    found.push_back(finding(Level::Warning, "B06", "",
                            "Neither bf16 nor fp16: weights, gradients and activations take twice the bytes.",
                            gpu.bf16 ? "enable bf16" : "enable fp16",
                            gpu.bf16 ? R"({"bf16": {"enabled": true}})" : R"({"fp16": {"enabled": true}})"));
  }
  if (ds.bf16_master_weights_and_grads) {
    found.push_back(finding(Level::Warning, "B09", "/bf16/bf16_master_weights_and_grads",
                            "Updates smaller than 1/256 of a weight vanish in bf16.",
                            "an fp32 master unless the optimizer rounds stochastically"));
  }
  if (v.zero.stage == 1 && ds.precision == Precision::Bf16 && ds.grad_accum_dtype == Precision::Fp32 &&
      v.zero.offload_optimizer.device == OffloadDevice::None) {
    found.push_back(finding(Level::Info, "B10", "/data_types/grad_accum_dtype",
                            "Stage 1 in bf16 with fp32 accumulation is another optimizer class, BF16_Optimizer, which keeps "
                            "a whole fp32 gradient.",
                            "", "", Elements{v.shard.trainable} * Bytes{4}));
  }
}

void optimizer(const LintView& v, Findings& found) {
  const bool block = !v.file.optimizer_type.empty();
  const bool offloaded = v.zero.stage > 0 && v.zero.offload_optimizer.device != OffloadDevice::None;
  if (v.subject.trainer && !v.given("/gradient_clipping") && v.ds.gradient_clipping == 0) {
    found.push_back(finding(Level::Warning, "D05", "/gradient_clipping",
                            "Absent: the engine of DeepSpeed " + text(v.run.versions.deepspeed) +
                                " does not clip, whatever the Trainer's max_grad_norm says.",
                            "\"gradient_clipping\": \"auto\"", R"({"gradient_clipping": "auto"})"));
  }
  if (v.subject.trainer && offloaded && !block) {
    const bool eight_bit = v.run.workload.optimizer == OptimizerKind::Adam8bit;
    if (!v.ds.zero_force_ds_cpu_optimizer) return;
    found.push_back(finding(eight_bit ? Level::Error : Level::Warning, eight_bit ? "D08" : "D07", "/optimizer",
                            eight_bit ? "With the optimizer on the CPU accelerate replaces the 8-bit one by DeepSpeedCPUAdam: "
                                        "its saving is gone."
                                      : "With the optimizer on the CPU accelerate replaces the Trainer's by DeepSpeedCPUAdam, "
                                        "unsaid.",
                            "write it: \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"weight_decay\": \"auto\"}}",
                            R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}})"));
  }
  if (v.run.workload.optimizer == OptimizerKind::Adam8bit && v.zero.stage > 0 && !offloaded) {
    found.push_back(finding(Level::Info, "D12", "--optimizer",
                            "ZeRO steps flat partitions: the 8-bit optimizer's blocks cross the borders of tensors.", ""));
  }
  if (v.file.optimizer_type == "adam" && v.json.at("optimizer").contains("params")) {
    const auto& params = v.json.at("optimizer").at("params");
    const bool decays = params.contains("weight_decay") && params.at("weight_decay") != 0;
    if (decays && params.value("adam_w_mode", true)) {
      found.push_back(finding(Level::Info, "D10", "/optimizer/type",
                              "Adam is AdamW here unless adam_w_mode is false: the decay is decoupled.", "write AdamW",
                              R"({"optimizer": {"type": "AdamW"}})"));
    }
  }
}

void activations(const LintView& v, Findings& found) {
  const Workload& w = v.run.workload;
  const Model& m = v.run.model;
  const std::int64_t tokens = v.run.tokens();
  if (!w.recompute.any()) {
    const MicroStep s = micro_step(m, w, v.ds.train_micro_batch_size_per_gpu, adapters_stay_fp32(w, v.ds, v.run.versions.switches));
    const Bytes kept = s.kept_layer * s.layers;
    if (kept.count > v.gpu.count / 10 * 3) {
      found.push_back(finding(Level::Warning, "E02", "--recompute",
                              "Without activation checkpointing the layers keep " + text(kept) + " for backward, more than 30 % "
                              "of a " + text(v.gpu) + " GPU.",
                              "gradient_checkpointing, here --recompute full", "", kept - s.boundary * s.layers));
    }
  }
  if (w.attention == Attention::Eager && w.seq_len >= 2048) {
    // 6hS bytes a token and layer: fp32 and 16-bit probabilities (activations, eager attention).
    found.push_back(finding(Level::Warning, "E07", "--attention", "Eager attention keeps the scores of every layer.",
                            "sdpa or flash", "", Bytes{6 * m.heads * w.seq_len * tokens} * (w.recompute.any() ? 1 : m.layers)));
  }
  const Bytes logits{12 * m.vocab * tokens};
  if (!w.kernels.fused_linear_cross_entropy && logits.count > v.gpu.count / 5) {
    found.push_back(finding(Level::Warning, "E12", "--micro-batch",
                            "The loss holds three fp32 copies of the logits at once, more than 20 % of the GPU.",
                            "a fused loss (--fused-loss), or a smaller micro-batch and more accumulation", "", logits));
  }
  if (w.seq_len > m.max_positions) {
    found.push_back(finding(Level::Warning, "E19", "--seq-len",
                            text_grouped(w.seq_len) + " tokens are more than the " + text_grouped(m.max_positions) +
                                " positions of " + m.name + ".",
                            "scale the rotary embedding, or shorten"));
  }
  if (lora(v) && v.zero.stage == 3 && w.recompute.any() && w.recompute.impl == RecomputeImpl::NonReentrant &&
      v.run.versions.deepspeed < Version{0, 19, 3}) {
    found.push_back(finding(Level::Error, "E04", "--recompute-impl",
                            "CheckpointError: a frozen, partitioned tensor has another shape when it is recomputed.",
                            "DeepSpeed 0.19.3 or later, or --recompute-impl reentrant"));
  }
}

void adapters_and_versions(const LintView& v, Findings& found) {
  const Version ds = v.run.versions.deepspeed, tf = v.run.versions.transformers;
  if (lora(v) && v.zero.stage == 3) {
    const Bytes weights = Elements{v.shard.elements} * width(v.ds.precision);
    if (weights.count < v.gpu.count / 2) {
      found.push_back(finding(Level::Info, "F10", "/zero_optimization/stage",
                              "The frozen weights (" + text(weights) + ") fit whole: stage 3 gathers them for every layer, and "
                              "only the adapters' states are sharded.",
                              "stage 0 to 2"));
    }
  }
  if (v.zero.stage == 3 && Version{0, 16, 0} < ds && ds < Version{0, 16, 8}) {
    found.push_back(finding(Level::Error, "H04", "--deepspeed",
                            "These versions keep gathered parameters: 8B runs out of memory on 8 x 80 GB.", "0.16.8 or later"));
  }
  if (v.subject.trainer && tf == Version{5, 1, 0}) {
    found.push_back(finding(Level::Error, "H02", "--transformers", "transformers 5.1.0 does not start under DeepSpeed.",
                            "another version"));
  }
}

}  // namespace

void lint_precision(const LintView& view, Findings& found) {
  precision(view, found);
  optimizer(view, found);
}

void lint_training(const LintView& view, Findings& found) {
  activations(view, found);
  adapters_and_versions(view, found);
}

}  // namespace zplan
