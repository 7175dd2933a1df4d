// What is trained and how the training script is written: everything that changes memory or time and is not
// in the ds_config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/ds_config.h"

namespace zplan {

enum class Finetune { Full, Lora, Qlora, Freeze };
enum class Attention { Sdpa, Flash, Eager };
enum class RecomputeImpl { NonReentrant, Reentrant };

// Activation checkpointing of decoder layers: every n-th layer is checkpointed; 0 = none, 1 = all.
struct Recompute {
  std::int64_t every = 0;
  RecomputeImpl impl = RecomputeImpl::NonReentrant;
  bool offload = false;  // boundaries kept in host memory
  bool any() const { return every > 0; }
  bool at(std::int64_t layer) const { return every > 0 && layer % every == 0; }
  friend bool operator==(const Recompute&, const Recompute&) = default;
};

// Liger kernels patched in before the model is built.
struct Kernels {
  bool fused_linear_cross_entropy = false;
  bool rms_norm = false;
  bool rope = false;
  bool swiglu = false;
  bool any() const { return fused_linear_cross_entropy || rms_norm || rope || swiglu; }
  friend bool operator==(const Kernels&, const Kernels&) = default;
};

// Where the model's weights are before deepspeed.initialize in stages 0-2 (stage 3: under zero.Init).
enum class Load { Cpu, Gpu };

struct Workload {
  std::int64_t seq_len = 2048;
  Finetune finetune = Finetune::Full;
  std::int64_t lora_rank = 16;
  std::int64_t freeze_layers = 0;    // Freeze: the embedding and this many first layers do not train
  OptimizerKind optimizer = OptimizerKind::DeepSpeedAdam;
  std::int64_t parameter_groups = 1; // 2: the HF Trainer's decay / no-decay split
  Recompute recompute;
  Attention attention = Attention::Sdpa;
  Kernels kernels;
  Load load = Load::Cpu;
  bool attention_mask = false;       // a mask reaches the model (padding); HF drops one of only ones
  bool eval_after = false;           // an evaluation forward after the last step
  std::int64_t skipped_steps = 0;    // first steps that the loss scaler skips: their gradients overflow
  double lora_dropout = 0;           // of the adapters' input
  bool adapter_autocast = true;      // PEFT's autocast_adapter_dtype: adapters of a 16-bit model are made fp32
  bool zero_init = true;             // stage 3: built under zero.Init; false: whole, before initialize

  bool adapted() const { return finetune == Finetune::Lora || finetune == Finetune::Qlora; }  // PEFT wraps the linears
  friend bool operator==(const Workload&, const Workload&) = default;
};

}  // namespace zplan
