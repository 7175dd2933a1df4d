// DeepSpeed's dynamic loss scale for fp16 (runtime/fp16/loss_scaler.py, its defaults); 1 and fixed
// otherwise.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zplan::trainer {

class LossScaler {
 public:
  explicit LossScaler(bool dynamic) : dynamic_(dynamic), scale_(dynamic ? 65536.0 : 1.0) {}
  double scale() const { return scale_; }
  std::int64_t skipped() const { return skipped_; }

  void update(bool overflow) {
    ++iteration_;
    if (overflow) ++skipped_;
    if (!dynamic_) return;
    if (overflow) {
      if (hysteresis_ == 1)
        scale_ = std::max(scale_ / 2, 1.0);
      else
        --hysteresis_;
      last_overflow_ = iteration_;
    } else if ((iteration_ - last_overflow_) % 1000 == 0) {
      hysteresis_ = 2;
      scale_ *= 2;
    }
  }

 private:
  bool dynamic_;
  double scale_;
  std::int64_t iteration_ = 0, last_overflow_ = 0, skipped_ = 0;
  int hysteresis_ = 2;
};

}  // namespace zplan::trainer
