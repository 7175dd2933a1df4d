// The few calls of NVIDIA's management library (NVML) that zplan uses, loaded at run time: neither building nor planning
// needs it. ZPLAN_NVML names another file than libnvidia-ml.so.1.
// Signatures and structures are those of nvml.h (https://docs.nvidia.com/deploy/nvml-api).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "units/units.h"

namespace zplan {

class Nvml {
 public:
  using Device = void*;
  struct Memory {
    Bytes capacity, used;       // capacity: without what the driver keeps, where it tells (from release 510)
  };
  struct Process {
    std::int64_t pid = 0;       // in the driver's own namespace: not that of a container
    std::optional<Bytes> used;  // absent where the driver does not say (Windows, MIG)
  };

  // Throws InputError at `where` with `fix` if the library is not there or the driver does not answer.
  Nvml(const std::string& where, const std::string& fix);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  unsigned count() const;                       // of GPUs; 0 also where it cannot be asked
  Device device(unsigned index) const;          // throws InputError at `where` if it does not answer
  std::string name(Device device) const;        // "NVIDIA H200"; empty where it cannot be asked, as below
  std::string uuid(Device device) const;        // "GPU-..."
  bool nvlink(Device device) const;             // whether any of its NVLinks is up
  std::optional<Memory> memory(Device device) const;
  std::vector<Process> compute_processes(Device device) const;  // those with a CUDA context

 private:
  // The function's result; 0 is success, -1 stands for a function that this driver does not have.
  template <typename Signature, typename... Arguments>
  int call(const char* function, Arguments... arguments) const;
  template <typename Info>
  std::optional<std::vector<Process>> processes(const char* function, Device device) const;

  std::string where_;
  std::unique_ptr<void, int (*)(void*)> library_;
};

}  // namespace zplan
