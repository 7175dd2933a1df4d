#include "cli/nvml.h"

#include <dlfcn.h>

#include <cstdlib>

#include "spec/error.h"

namespace zplan {
namespace {

constexpr int kNoFunction = -1, kSuccess = 0, kInsufficientSize = 7;
constexpr unsigned kNvLinks = 18;  // NVML_NVLINK_MAX_LINKS

// nvmlMemory_t and nvmlMemory_v2_t. In the first, `used` includes what the driver keeps.
struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
// nvmlProcessInfo_v1_t, and nvmlProcessInfo_t since the second version of the call.
struct ProcessV1 {
  unsigned pid;
  unsigned long long used;
};
struct ProcessV2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

std::string library_file() {
  const char* said = std::getenv("ZPLAN_NVML");
  return said != nullptr && *said != '\0' ? said : "libnvidia-ml.so.1";
}

Bytes bytes(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n)}; }

}  // namespace

template <typename Signature, typename... Arguments>
int Nvml::call(const char* function, Arguments... arguments) const {
  auto* found = reinterpret_cast<Signature*>(::dlsym(library_.get(), function));
  return found == nullptr ? kNoFunction : found(arguments...);
}

Nvml::Nvml(const std::string& where, const std::string& fix)
    : where_(where), library_(::dlopen(library_file().c_str(), RTLD_NOW), &::dlclose) {
  if (!library_) throw InputError(where, "the NVIDIA driver's library " + library_file() + " is not here", fix);
  if (call<int()>("nvmlInit_v2") != kSuccess)
    throw InputError(where, "the NVIDIA driver does not answer", "look at nvidia-smi");
}

Nvml::~Nvml() {
  if (library_) call<int()>("nvmlShutdown");
}

unsigned Nvml::count() const {
  unsigned n = 0;
  return call<int(unsigned*)>("nvmlDeviceGetCount_v2", &n) == kSuccess ? n : 0;
}

Nvml::Device Nvml::device(unsigned index) const {
  Device found = nullptr;
  if (call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &found) != kSuccess) {
    throw InputError(where_, "GPU " + std::to_string(index) + " does not answer", "look at nvidia-smi");
  }
  return found;
}

std::string Nvml::name(Device device) const {
  char text[96] = {};
  return call<int(Device, char*, unsigned)>("nvmlDeviceGetName", device, text, 96U) == kSuccess ? text : "";
}

std::string Nvml::uuid(Device device) const {
  char text[96] = {};
  return call<int(Device, char*, unsigned)>("nvmlDeviceGetUUID", device, text, 96U) == kSuccess ? text : "";
}

bool Nvml::nvlink(Device device) const {
  for (unsigned link = 0; link < kNvLinks; ++link) {
    int active = 0;
    if (call<int(Device, unsigned, int*)>("nvmlDeviceGetNvLinkState", device, link, &active) == kSuccess &&
        active == 1)
      return true;
  }
  return false;
}

std::optional<Nvml::Memory> Nvml::memory(Device device) const {
  MemoryV2 two{sizeof(MemoryV2) | (2U << 24U), 0, 0, 0, 0};  // NVML_STRUCT_VERSION
  if (call<int(Device, MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2", device, &two) == kSuccess) {
    return Memory{bytes(two.total - two.reserved), bytes(two.used)};
  }
  MemoryV1 one{};
  if (call<int(Device, MemoryV1*)>("nvmlDeviceGetMemoryInfo", device, &one) != kSuccess) return std::nullopt;
  return Memory{bytes(one.total), bytes(one.used)};
}

template <typename Info>
std::optional<std::vector<Nvml::Process>> Nvml::processes(const char* function, Device device) const {
  constexpr unsigned most = 1 << 16;
  std::vector<Info> found(64);
  int result = kInsufficientSize;
  unsigned n = 0;
  while (result == kInsufficientSize && found.size() <= most) {
    n = static_cast<unsigned>(found.size());
    result = call<int(Device, unsigned*, Info*)>(function, device, &n, found.data());
    if (result == kInsufficientSize) found.resize(2 * found.size());
  }
  if (result != kSuccess) return std::nullopt;
  std::vector<Process> out;
  for (unsigned i = 0; i < n; ++i) {
    const bool said = found[i].used != ~0ULL;  // NVML_VALUE_NOT_AVAILABLE
    out.push_back({found[i].pid, said ? std::optional<Bytes>(bytes(found[i].used)) : std::nullopt});
  }
  return out;
}

std::vector<Nvml::Process> Nvml::compute_processes(Device device) const {
  if (auto all = processes<ProcessV2>("nvmlDeviceGetComputeRunningProcesses_v3", device)) return *all;
  if (auto all = processes<ProcessV2>("nvmlDeviceGetComputeRunningProcesses_v2", device)) return *all;
  return processes<ProcessV1>("nvmlDeviceGetComputeRunningProcesses", device).value_or(std::vector<Process>());
}

}  // namespace zplan
