// ZeRO-1 in bf16 with fp32 accumulation: deepspeed/runtime/bf16_optimizer.py (BF16_Optimizer): full fp32 gradients,
// masters and states cut over the ranks. Before 0.18.5 also bf16 without ZeRO. docs/stages-0-2.md#bf16-optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "step/device_module.h"
#include "step/engine.h"
#include "step/gradient_checks.h"
#include "step/parameter_groups.h"

namespace zplan {

class Bf16Optimizer : public NoModuleHooks {
 public:
  Bf16Optimizer(const Run& run, const Script& script, Recorder& recorder);

  void load() { module_.load(); }
  void init();
  void before_forward(const Accumulation&) {}
  void before_backward(const Accumulation&) {}
  void gradient(std::int32_t parameter, BlockId block);
  void after_backward(const Accumulation& at);
  void step(const Accumulation& at);

 private:
  void accumulate(std::int32_t parameter);
  BlockId global_norm();
  std::int64_t numel(std::int32_t p) const { return script_.parameters[static_cast<std::size_t>(p)].numel; }

  const Run& run_;
  const Script& script_;
  Recorder& recorder_;
  DeviceModule module_;
  std::vector<FlatGroup> groups_;
  std::vector<BlockId> gradients_;   // param.grad, zeroed in place between micro-steps
  bool states_ = false, norm_buffer_ = false;
  std::uint16_t flat_label_, master_label_, clone_label_, zero_label_, gradient_label_, cast_label_, reduce_label_, state_label_,
      transient_label_, scalar_label_, check_label_;
  GradientChecks checks_;
  Scalars scalars_;
};

}  // namespace zplan
