// When a block that another stream uses comes back: a clock of the host thread and of each stream. The host runs ahead
// of the GPU; torch asks at every allocation whether a freed block's event has passed. Rates are rough on purpose: what
// counts are the milliseconds of head, loss and large copies against the host's pace.
// Derived in docs/memory-model.md#late-frees.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "allocator/history.h"
#include "spec/hardware.h"

namespace zplan {

class Clock {
 public:
  // Microseconds of the host for one operator, what follows a gather's request, and one module hook (Python of ZeRO-3's
  // coordinator). A layer of Qwen3-8B takes 11 ms of a forward (27 hooks) and 24-29 ms of recomputation and backward,
  // whatever the batch: docs/time-model.md#host.
  static constexpr double kOperator = 20, kGather = 200, kForwardHook = 320, kBackwardHook = 500;
  // The part of a hook before it asks for its gathers.
  static constexpr double kBeforeGather = 0.55;
  // A module of the trace that a decision about releases looks at; each decision is made once.
  static constexpr double kTracedModule = 9;

  // Of an fp32 model: torch leaves TF32 off for matrix products (torch.backends.cuda.matmul.allow_tf32).
  explicit Clock(const Gpu& gpu, bool fp32 = false)
      : bytes_per_us_(std::max(1.0, gpu.memory_gb_per_s * 0.8 * 1e3)),
        flops_per_us_(std::max(1.0, (fp32 ? gpu.fp32_tflops : std::max(gpu.bf16_tflops, gpu.fp16_tflops)) * 0.6 * 1e6)),
        host_bytes_per_us_(std::max(1.0, gpu.pcie_gb_per_s * 0.8 * 1e3)) {}

  void host_works(double us) { host_ += us; }
  // A kernel that writes `bytes` and reads about as much.
  void writes(StreamId stream, std::int64_t bytes) { runs(stream, 2 + 2 * static_cast<double>(bytes) / bytes_per_us_); }
  void computes(StreamId stream, double flops) { runs(stream, 2 + flops / flops_per_us_); }
  // Over PCIe.
  void copies(StreamId stream, std::int64_t bytes) { runs(stream, 5 + static_cast<double>(bytes) / host_bytes_per_us_); }
  void waits(StreamId stream, StreamId other) { at_[stream] = std::max(at_[stream], at_[other]); }
  void synchronize() { host_ = std::max(host_, *std::max_element(at_.begin(), at_.end())); }
  void host_waits(double until) { host_ = std::max(host_, until); }

  double host() const { return host_; }
  double stream(StreamId stream) const { return at_[stream]; }

 private:
  void runs(StreamId stream, double us) { at_[stream] = std::max(at_[stream], host_) + us; }
  double bytes_per_us_, flops_per_us_, host_bytes_per_us_;
  double host_ = 0;
  std::array<double, 3> at_{};
};

}  // namespace zplan
