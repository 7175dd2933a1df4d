#include "device.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace zplan::trainer {

Lane Lane::current(at::Device device) {
  Lane lane;
  if (device.is_cuda()) lane.stream_ = c10::cuda::getCurrentCUDAStream(device.index()).unwrap();
  return lane;
}

Lane Lane::side(at::Device device) {
  Lane lane;
  if (device.is_cuda()) lane.stream_ = c10::cuda::getStreamFromPool(false, device.index()).unwrap();
  return lane;
}

void Lane::wait_for(const Lane& other) const {
  if (!stream_ || !other.stream_ || *stream_ == *other.stream_) return;
  at::cuda::CUDAEvent event;
  event.record(c10::cuda::CUDAStream(*other.stream_));
  event.block(c10::cuda::CUDAStream(*stream_));
}

void Lane::synchronize() const {
  if (stream_) c10::cuda::CUDAStream(*stream_).synchronize();
}

void Lane::keep(const at::Tensor& tensor) const {
  if (stream_ && tensor.defined() && tensor.is_cuda()) tensor.record_stream(*stream_);
}

void Throttle::admit() {
  const auto event = [&] { return static_cast<at::cuda::CUDAEvent*>(events_.front().get()); };
  while (!events_.empty() && event()->query()) events_.pop_front();
  if (events_.size() > limit_) {
    event()->synchronize();
    events_.pop_front();
  }
}

void Throttle::queued(const Lane& lane) {
  if (!lane.stream()) return;
  auto event = std::make_shared<at::cuda::CUDAEvent>();
  event->record(c10::cuda::CUDAStream(*lane.stream()));
  events_.push_back(std::move(event));
}

Stopwatch::Stopwatch(const Lane& lane) : lane_(lane) {
  if (!lane.stream()) return;
  auto event = std::make_shared<at::cuda::CUDAEvent>(cudaEventDefault);
  event->record(c10::cuda::CUDAStream(*lane.stream()));
  begin_ = std::move(event);
}

std::optional<double> Stopwatch::stop() {
  if (!begin_) return std::nullopt;
  at::cuda::CUDAEvent end(cudaEventDefault);
  end.record(c10::cuda::CUDAStream(*lane_.stream()));
  end.synchronize();
  return static_cast<double>(static_cast<at::cuda::CUDAEvent*>(begin_.get())->elapsed_time(end)) /
         1e3;
}

void synchronize(at::Device device) {
  if (device.is_cuda()) c10::cuda::device_synchronize();
}

void empty_cache(at::Device device) {
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
}

at::Tensor host_empty(at::IntArrayRef shape, at::ScalarType type, at::Device device, bool pinned) {
  return at::empty(shape, at::TensorOptions().dtype(type).device(at::kCPU).pinned_memory(
                              pinned && device.is_cuda()));
}

}  // namespace zplan::trainer
