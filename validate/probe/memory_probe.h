// What a phase used, read where it happened.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "allocator/history.h"

namespace zplan::trainer {

struct MemoryFigures {
  PhaseFigures device;               // torch's allocator; zero on the CPU
  Bytes host_rss, host_rss_peak;     // of this process
  Bytes host_pinned;                 // held by torch's host allocator
  std::optional<Bytes> device_used;  // by everyone, as the driver counts
};

class MemoryProbe {
 public:
  MemoryProbe() = default;
  MemoryProbe(const MemoryProbe&) = delete;
  MemoryProbe& operator=(const MemoryProbe&) = delete;
  virtual ~MemoryProbe() = default;
  virtual MemoryFigures read() = 0;  // after everything queued has run
  virtual void restart_peaks() = 0;
};

std::unique_ptr<MemoryProbe> cuda_probe(at::Device device);
std::unique_ptr<MemoryProbe> host_probe();

// VmRSS and VmHWM of this process.
void read_host(MemoryFigures& figures);

struct DeviceFacts {
  std::string name, driver;
  Bytes total;
  int count = 0;
};
// Asked of the driver; count 0 where there is no GPU.
DeviceFacts device_facts(at::Device device);
// Without touching CUDA in this process.
int visible_gpus();
// set_per_process_memory_fraction in bytes.
void limit_capacity(at::Device device, Bytes capacity);

}  // namespace zplan::trainer
