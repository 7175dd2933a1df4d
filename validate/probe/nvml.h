// The driver's own counts through libnvidia-ml.so.1, loaded at run time since toolkits often lack
// its header.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "units/units.h"

namespace zplan::trainer {

class Nvml {
 public:
  // Nothing if the library or a GPU is missing.
  static std::unique_ptr<Nvml> load();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  // By PCI bus id, since CUDA_VISIBLE_DEVICES renumbers the devices of CUDA but not of NVML.
  std::optional<Bytes> used(const std::string& bus_id) const;
  std::string driver() const;

 private:
  Nvml() = default;
  void* library_ = nullptr;
};

}  // namespace zplan::trainer
