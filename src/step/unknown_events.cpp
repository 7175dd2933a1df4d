#include "step/unknown_events.h"

#include <string>
#include <utility>

#include "step/full_precision.h"
#include "step/layer_tables.h"
#include "step/liger_rows.h"

namespace zplan {
namespace {

class Unknown {
 public:
  void add(bool applies, const std::string& what, const std::string& instead, const std::string& fix) {
    if (applies) notes_.push_back({Note::Level::Warning, "events-of-other-tables", what + ": " + instead + ".", fix});
  }
  std::vector<Note> take() { return std::move(notes_); }

 private:
  std::vector<Note> notes_;
};

}  // namespace

std::vector<Note> unknown_events(const Run& run) {
  const auto& w = run.workload;
  const auto& zero = run.ds.zero;
  const bool zero3 = zero.stage == 3, qlora = w.finetune == Finetune::Qlora;
  const bool adapted = w.adapted();
  const bool fp32 = run.ds.precision == Precision::Fp32 && !run.ds.torch_autocast;
  const std::string measure = "measure such a run (docs/validation.md)";
  Unknown unknown;
  unknown.add(run.ds.torch_autocast && !autocast_layers(run),
              "torch_autocast with checkpointing, adapters, frozen layers, Liger, a mask or "
              "a model without q and k norms",
              "simulated with the layers of 16-bit training, which are too small",
              "use bf16, or " + measure);
  unknown.add(fp32 && !full_precision(run),
              "fp32 with adapters or frozen layers",
              "simulated with the layers of 16-bit training, which are too small",
              "use bf16, or " + measure);
  unknown.add(full_precision(run) && w.attention == Attention::Sdpa && run.model.heads == run.model.kv_heads,
              "fp32 without grouped heads, where sdpa takes its memory-efficient kernel",
              "simulated with the plain products of grouped heads, which are too large",
              "use bf16, or " + measure);
  unknown.add(holds_mask(run) && run.model.heads == run.model.kv_heads,
              "Eager attention or a mask without grouped heads",
              "simulated with repeated keys and values, which are too large",
              measure);
  unknown.add(layer_kernels(run) != w.kernels && (w.kernels.rms_norm || w.kernels.rope || w.kernels.swiglu),
              "Liger's RMSNorm, rope or SwiGLU in fp32, with experts, frozen layers or a padding mask",
              "simulated with transformers' own modules",
              measure);
  unknown.add(adapted && run.model.experts.has_value(),
              "Adapters beside experts",
              "simulated by rule: adapters on the attention, experts that pass gradients on and get none",
              measure);
  unknown.add(qlora && adapters_stay_fp32(w, run.ds, run.versions.switches),
              "QLoRA with fp32 adapters in stage 3",
              "simulated without the 4-bit weights' copies in the backward",
              measure);
  unknown.add(qlora && zero3 && w.lora_dropout > 0,
              "QLoRA with dropout in stage 3",
              "simulated without dropout in the backward",
              measure);
  unknown.add(adapted && w.eval_after && w.lora_dropout > 0,
              "An evaluation of adapters with dropout",
              "simulated as if it dropped",
              measure);
  unknown.add(w.recompute.any() && w.recompute.offload,
              "Checkpoints in host memory",
              "simulated as if they stayed on the GPU",
              "");
  unknown.add(w.skipped_steps > 0 && (zero.stage == 0 || zero3 || zero.offload_optimizer.device != OffloadDevice::None),
              "Steps skipped by the loss scaler without ZeRO, in stage 3 or with the optimizer on the host",
              "simulated as steps that are taken",
              measure);
  unknown.add(zero3 && !w.zero_init,
              "A model built before deepspeed.initialize in stage 3",
              "load and init are simulated as under zero.Init",
              "build it under zero.Init");
  unknown.add(zero3 && zero.stage3_module_granularity_threshold > 0,
              "stage3_module_granularity_threshold",
              "simulated without leaf modules",
              "remove it");
  unknown.add(torch_linears(run) && !torch_linear_layers(run),
              "torch's own linear in stage 3 (memory_efficient_linear: false, or before 0.19.6 a model built outside "
              "zero.Init) with checkpointing, adapters, frozen layers, experts, Liger, biases, a mask or fp32",
              "simulated with DeepSpeed's linear, which holds no gathered weight for the backward",
              "remove it");
  return unknown.take();
}

}  // namespace zplan
