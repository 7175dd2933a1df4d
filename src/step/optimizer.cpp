#include "step/optimizer.h"

#include "units/units.h"

namespace zplan {
namespace {

// bitsandbytes/optim/optimizer.py init_state: uint8 states with an fp32 absmax for every 256 elements; tensors below
// 4,096 elements keep fp32 states. The two code maps of the process come to the device with the first one.
void states_8bit(Recorder& recorder, OptimizerLabels labels, std::int64_t n, std::int64_t index, bool& maps) {
  if (n < 4096) {
    for (int state = 0; state < 2; ++state) recorder.allocate(4 * n, labels.state, index);
    return;
  }
  if (maps) {
    for (int map = 0; map < 2; ++map) recorder.allocate(1024, labels.state);
    maps = false;
  }
  for (int state = 0; state < 2; ++state) recorder.allocate(n, labels.state, index);
  for (int state = 0; state < 2; ++state) recorder.allocate(4 * ceil_div(n, 256), labels.state, index);
}

}  // namespace

void optimizer_step(Recorder& recorder, OptimizerKind kind, OptimizerLabels labels, const std::vector<std::int64_t>& tensors,
                    std::int64_t index, bool first, std::int64_t state_width) {
  bool maps = index == 0;
  for (const auto n : tensors) {
    if (!first) break;
    if (kind == OptimizerKind::Adam8bit) {
      states_8bit(recorder, labels, n, index, maps);
      continue;
    }
    // torch/optim/adam.py _init_group: the fused kernel's step count is on the device.
    if (kind == OptimizerKind::TorchAdamFused) recorder.allocate(4, labels.state, index);
    recorder.allocate(state_width * n, labels.state, index);  // exp_avg
    recorder.allocate(state_width * n, labels.state, index);  // exp_avg_sq
  }
  // Fused kernels (ops/adam/fused_adam.py multi-tensor apply, torch fused, bitsandbytes) need no temporaries.
  if (kind != OptimizerKind::TorchAdamForeach) return;
  std::vector<BlockId> roots;  // torch/optim/adam.py _multi_tensor_adam: _foreach_sqrt of every exp_avg_sq
  for (const auto n : tensors) roots.push_back(recorder.allocate(state_width * n, labels.transient, index));
  for (auto it = roots.rbegin(); it != roots.rend(); ++it) recorder.free(*it);
}

void optimizer_step(Recorder& recorder, OptimizerKind kind, OptimizerLabels labels, std::int64_t n, std::int64_t index,
                    bool first, std::int64_t state_width) {
  optimizer_step(recorder, kind, labels, std::vector<std::int64_t>{n}, index, first, state_width);
}

}  // namespace zplan
