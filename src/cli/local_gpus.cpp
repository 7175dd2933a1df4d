#include "cli/local_gpus.h"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "spec/error.h"

namespace zplan {
namespace {

constexpr const char* where = "--gpus local";

// The few calls of NVML's C interface that are used, by their published signatures (nvml.h); 0 is success.
class Nvml {
 public:
  using Device = void*;
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW), &::dlclose) {
    if (!library_) {
      throw InputError(where, "the NVIDIA driver's library libnvidia-ml.so.1 is not here", "name the GPUs, such as --gpus 4xA100-40G");
    }
    if (call<int()>("nvmlInit_v2") != 0) throw InputError(where, "the NVIDIA driver does not answer", "look at nvidia-smi");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (library_) {
      if (auto* shutdown = reinterpret_cast<int (*)()>(::dlsym(library_.get(), "nvmlShutdown"))) shutdown();
    }
  }

  unsigned count() const {
    unsigned n = 0;
    if (call<int(unsigned*)>("nvmlDeviceGetCount_v2", &n) != 0) return 0;
    return n;
  }
  Device device(unsigned index) const {
    Device found = nullptr;
    if (call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &found) != 0) {
      throw InputError(where, "GPU " + std::to_string(index) + " does not answer", "look at nvidia-smi");
    }
    return found;
  }
  std::string name(Device of) const {
    char text[96] = {};
    if (call<int(Device, char*, unsigned)>("nvmlDeviceGetName", of, text, 96U) != 0) return "";
    return text;
  }
  // Whether any NVLink of the GPU is up.
  bool nvlink(Device of) const {
    for (unsigned link = 0; link < 18; ++link) {
      int active = 0;
      if (call<int(Device, unsigned, int*)>("nvmlDeviceGetNvLinkState", of, link, &active) == 0 && active == 1) return true;
    }
    return false;
  }

 private:
  template <typename Signature, typename... Arguments>
  int call(const char* function, Arguments... arguments) const {
    auto* found = reinterpret_cast<Signature*>(::dlsym(library_.get(), function));
    return found == nullptr ? -1 : found(arguments...);
  }
  std::unique_ptr<void, int (*)(void*)> library_;
};

}  // namespace

Cluster local_cluster(const Catalog& catalog) {
  const Nvml nvml;
  const unsigned count = nvml.count();
  if (count == 0) throw InputError(where, "this machine has no NVIDIA GPU", "name the GPUs, such as --gpus 4xA100-40G");
  Cluster cluster;
  cluster.asked = "local";
  cluster.node.id = "local";
  cluster.node.gpus = count;
  const std::string name = nvml.name(nvml.device(0));
  for (unsigned i = 1; i < count; ++i) {
    if (const std::string other = nvml.name(nvml.device(i)); other != name) {
      throw InputError(where, "the GPUs differ: " + name + " and " + other, "name those the job uses, such as --gpus 2x" + name);
    }
  }
  cluster.node.gpu = find_gpu(catalog, name, where).gpu;
  cluster.node.interconnect = nvml.nvlink(nvml.device(0)) ? Interconnect::NvLink : Interconnect::Pcie;
  cluster.node.host_memory = Bytes{::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)};
  cluster.node.cpu_cores = std::thread::hardware_concurrency() / 2;
  return cluster;
}

}  // namespace zplan
