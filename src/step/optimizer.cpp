#include "step/optimizer.h"

#include "units/units.h"

namespace zplan {

void optimizer_step(Recorder& recorder, OptimizerKind kind, OptimizerLabels labels, std::int64_t n, std::int64_t index,
                    bool first) {
  switch (kind) {
    case OptimizerKind::DeepSpeedAdam:    // deepspeed/ops/adam/fused_adam.py: multi-tensor apply, no temporaries
    case OptimizerKind::TorchAdamFused:   // torch/optim/adamw.py, fused=True
      if (first) {
        recorder.allocate(4 * n, labels.state, index);  // exp_avg
        recorder.allocate(4 * n, labels.state, index);  // exp_avg_sq
      }
      return;
    case OptimizerKind::TorchAdamForeach: {
      if (first) {
        recorder.allocate(4 * n, labels.state, index);
        recorder.allocate(4 * n, labels.state, index);
      }
      const auto root = recorder.allocate(4 * n, labels.transient, index);  // _foreach_sqrt of exp_avg_sq
      recorder.free(root);
      return;
    }
    case OptimizerKind::Adam8bit:         // bitsandbytes/optim/optimizer.py: uint8 states, fp32 absmax per 256
      if (first) {
        for (int state = 0; state < 2; ++state) recorder.allocate(n, labels.state, index);
        for (int state = 0; state < 2; ++state) recorder.allocate(4 * ceil_div(n, 256), labels.state, index);
      }
      return;
  }
}

}  // namespace zplan
