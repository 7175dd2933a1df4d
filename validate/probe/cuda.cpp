#include <ATen/cuda/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/memory_probe.h"
#include "probe/nvml.h"

namespace zplan::trainer {
namespace {

namespace Caching = c10::cuda::CUDACachingAllocator;

std::string bus_id(int device) {
  char text[32] = {};
  return cudaDeviceGetPCIBusId(text, sizeof text, device) == cudaSuccess ? text : "";
}

class CudaProbe final : public MemoryProbe {
 public:
  explicit CudaProbe(at::Device device)
      : device_(device.index()), nvml_(Nvml::load()), bus_id_(bus_id(device.index())) {}

  MemoryFigures read() override {
    c10::cuda::device_synchronize();
    const auto stats = Caching::getDeviceStats(device_);
    const auto of = [](const auto& s) { return s[0]; };  // StatType::AGGREGATE
    MemoryFigures m;
    m.device.allocated = {of(stats.allocated_bytes).current};
    m.device.allocated_peak = {of(stats.allocated_bytes).peak};
    m.device.reserved = {of(stats.reserved_bytes).current};
    m.device.reserved_peak = {of(stats.reserved_bytes).peak};
    m.device.active = {of(stats.active_bytes).current};
    m.device.active_peak = {of(stats.active_bytes).peak};
    m.device.inactive_split = {of(stats.inactive_split_bytes).current};
    m.device.alloc_retries = stats.num_alloc_retries;
    m.host_pinned = {at::getHostAllocator(at::kCUDA)->get_stats().allocated_bytes.current};
    m.device_used = device_used();
    read_host(m);
    return m;
  }
  void restart_peaks() override { Caching::resetPeakStats(device_); }

 private:
  std::optional<Bytes> device_used() const {
    if (nvml_) {
      if (const auto used = nvml_->used(bus_id_)) return used;
    }
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
    return Bytes{static_cast<std::int64_t>(total - free)};
  }

  c10::DeviceIndex device_;
  std::unique_ptr<Nvml> nvml_;
  std::string bus_id_;
};

}  // namespace

std::unique_ptr<MemoryProbe> cuda_probe(at::Device device) {
  return std::make_unique<CudaProbe>(device);
}

DeviceFacts device_facts(at::Device device) {
  DeviceFacts facts;
  if (const auto nvml = Nvml::load()) facts.driver = nvml->driver();
  cudaDeviceProp properties{};
  if (cudaGetDeviceCount(&facts.count) != cudaSuccess) facts.count = 0;
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess) {
    facts.name = properties.name;
    facts.total = {static_cast<std::int64_t>(properties.totalGlobalMem)};
  }
  return facts;
}

// In a child, since a process that has touched CUDA cannot fork ranks that use it.
int visible_gpus() {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
    _exit(count);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 0;
  return WEXITSTATUS(status);
}

void limit_capacity(at::Device device, Bytes capacity) {
  const double total = static_cast<double>(device_facts(device).total.count);
  Caching::setMemoryFraction(std::min(1.0, static_cast<double>(capacity.count) / total),
                             device.index());
}

}  // namespace zplan::trainer
