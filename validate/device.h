// Where tensors live and in which order their work runs. The engines are written once: on the CPU a
// lane is nothing, and every order holds by itself.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <deque>
#include <memory>
#include <optional>

namespace zplan::trainer {

// A CUDA stream, or nothing on the CPU.
class Lane {
 public:
  Lane() = default;
  static Lane current(at::Device device);  // the stream that operators of this thread use now
  static Lane side(at::Device device);     // another stream of torch's pool

  // What is queued here from now on runs after what `other` has queued so far.
  void wait_for(const Lane& other) const;
  void synchronize() const;
  // Tensor::record_stream: the block is not given to others before this lane's present work is
  // done.
  void keep(const at::Tensor& tensor) const;
  const std::optional<c10::Stream>& stream() const { return stream_; }

 private:
  std::optional<c10::Stream> stream_;
};

// Operators of this scope run on the lane.
class OnLane {
 public:
  explicit OnLane(const Lane& lane) {
    if (lane.stream()) guard_.reset_stream(*lane.stream());
  }

 private:
  c10::OptionalStreamGuard guard_;
};

// At most `limit` pieces of work in flight on a lane; admitting one more waits for the oldest on
// the host. DeepSpeed throttles gathers and reductions so (PC:fetch_sub_module,
// S3:__reduce_and_partition_ipg_grads).
class Throttle {
 public:
  explicit Throttle(std::size_t limit) : limit_(limit) {}
  void admit();                   // call before queueing
  void queued(const Lane& lane);  // call after queueing on `lane`

 private:
  std::size_t limit_;
  std::deque<std::shared_ptr<void>> events_;
};

// Time between two points of a lane: CUDA events on a GPU, nothing on the CPU.
class Stopwatch {
 public:
  explicit Stopwatch(const Lane& lane);  // starts
  std::optional<double> stop();          // seconds; the host waits

 private:
  Lane lane_;
  std::shared_ptr<void> begin_;
};

void synchronize(at::Device device);
// torch.cuda.empty_cache(), nothing on the CPU.
void empty_cache(at::Device device);
// Options of host memory beside `device`: page-locked where there is a GPU and `pinned` asks for
// it.
at::Tensor host_empty(at::IntArrayRef shape, at::ScalarType type, at::Device device, bool pinned);

}  // namespace zplan::trainer
