// Without ZeRO: deepspeed/runtime/fp16/fused_optimizer.py (FP16_Optimizer, also for bf16) under a fused Adam,
// fp16/unfused_optimizer.py (FP16_UnfusedOptimizer) under any other optimizer, and the bare optimizer in fp32.
// Derived in docs/stages-0-2.md#zero0.
#pragma once

#include <cstdint>
#include <vector>

#include "step/device_module.h"
#include "step/engine.h"
#include "step/gradient_checks.h"
#include "step/parameter_groups.h"

namespace zplan {

class Zero0 : public NoModuleHooks {
 public:
  Zero0(const Run& run, const Script& script, Recorder& recorder);

  void load() { module_.load(); }
  void init();
  void before_forward(const Accumulation&) {}
  void before_backward(const Accumulation&) {}
  void gradient(std::int32_t parameter, BlockId block);
  void after_backward(const Accumulation& at);
  void step(const Accumulation& at);

 private:
  enum class Wrapper { Flat, PerParameter, None };  // FP16_Optimizer, FP16_UnfusedOptimizer, the bare optimizer
  void init_flat();
  void init_per_parameter();
  void step_flat();
  void step_per_parameter();
  void step_bare();
  void overflow_check();
  void clip_fp32_gradients();
  void drop_gradients();
  std::vector<std::int64_t> sizes(const std::vector<std::int32_t>& group) const;
  std::int64_t numel(std::int32_t p) const { return script_.parameters[static_cast<std::size_t>(p)].numel; }
  std::int64_t numel(const std::vector<std::int32_t>& group) const;

  const Run& run_;
  const Script& script_;
  Recorder& recorder_;
  DeviceModule module_;
  Wrapper wrapper_;
  std::int64_t width_;
  std::vector<std::vector<std::int32_t>> groups_;
  std::vector<BlockId> gradients_;  // param.grad by parameter
  bool states_ = false;
  std::uint16_t flat_label_, clone_label_, master_label_, zero_label_, gradient_label_, reduce_label_, flat_grad_label_, state_label_,
      transient_label_, scalar_label_, check_label_;
  GradientChecks checks_;
};

}  // namespace zplan
