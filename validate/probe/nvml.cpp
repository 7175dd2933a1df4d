#include "probe/nvml.h"

#include <dlfcn.h>

namespace zplan::trainer {
namespace {

struct MemoryInfo {
  unsigned long long total, free, used;
};

template <class F>
F* symbol(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

}  // namespace

std::unique_ptr<Nvml> Nvml::load() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  const auto init = symbol<int()>(library, "nvmlInit_v2");
  if (!init || init() != 0) {
    dlclose(library);
    return nullptr;
  }
  auto nvml = std::unique_ptr<Nvml>(new Nvml);
  nvml->library_ = library;
  return nvml;
}

Nvml::~Nvml() {
  if (const auto shutdown = symbol<int()>(library_, "nvmlShutdown")) shutdown();
  dlclose(library_);
}

std::optional<Bytes> Nvml::used(const std::string& bus_id) const {
  const auto by_bus =
      symbol<int(const char*, void**)>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto info = symbol<int(void*, MemoryInfo*)>(library_, "nvmlDeviceGetMemoryInfo");
  void* device = nullptr;
  MemoryInfo memory{};
  if (!by_bus || !info || by_bus(bus_id.c_str(), &device) != 0 || info(device, &memory) != 0)
    return std::nullopt;
  return Bytes{static_cast<std::int64_t>(memory.used)};
}

std::string Nvml::driver() const {
  char text[96] = {};
  const auto version = symbol<int(char*, unsigned)>(library_, "nvmlSystemGetDriverVersion");
  return version && version(text, sizeof text) == 0 ? text : "";
}

}  // namespace zplan::trainer
