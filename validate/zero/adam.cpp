#include "zero/adam.h"

#include <ATen/ops/_fused_adamw.h>

namespace zplan::trainer {

void adam_step(const AdamSettings& settings, at::Tensor master, at::Tensor gradient,
               AdamState& state) {
  if (!state.exp_avg.defined()) {
    state.exp_avg = at::zeros_like(master);
    state.exp_avg_sq = at::zeros_like(master);
    state.steps = at::zeros({}, master.options());
  }
  const at::NoGradGuard no_graph;
  state.steps.add_(1);
  at::_fused_adamw_({master}, {gradient}, {state.exp_avg}, {state.exp_avg_sq}, {}, {state.steps},
                    settings.lr, settings.beta1, settings.beta2, settings.weight_decay,
                    settings.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
}

}  // namespace zplan::trainer
