// AdamW over flat partitions: torch's fused kernel, one pass and no temporaries on the GPU,
// vectorised and threaded on the CPU, where it stands for DeepSpeedCPUAdam.
#pragma once

#include <ATen/ATen.h>

namespace zplan::trainer {

struct AdamSettings {
  double lr = 1e-5, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

struct AdamState {
  at::Tensor exp_avg, exp_avg_sq, steps;  // made by the first step, beside the master weights
};

void adam_step(const AdamSettings& settings, at::Tensor master, at::Tensor gradient,
               AdamState& state);

}  // namespace zplan::trainer
