#include "cli/local_gpus.h"

#include <unistd.h>

#include <string>
#include <thread>

#include "cli/nvml.h"
#include "spec/error.h"

namespace zplan {
namespace {

constexpr const char* where = "--gpus local";
constexpr const char* name_them = "name the GPUs, such as --gpus 4xA100-40G";

}  // namespace

Cluster local_cluster(const Catalog& catalog) {
  const Nvml nvml(where, name_them);
  const unsigned count = nvml.count();
  if (count == 0) throw InputError(where, "this machine has no NVIDIA GPU", name_them);
  Cluster cluster;
  cluster.asked = "local";
  cluster.node.id = "local";
  cluster.node.gpus = count;
  const std::string name = nvml.name(nvml.device(0));
  for (unsigned i = 1; i < count; ++i) {
    if (const std::string other = nvml.name(nvml.device(i)); other != name) {
      throw InputError(where, "the GPUs differ: " + name + " and " + other,
                       "name those the job uses, such as --gpus 2x" + name);
    }
  }
  cluster.node.gpu = find_gpu(catalog, name, where).gpu;
  cluster.node.interconnect = nvml.nvlink(nvml.device(0)) ? Interconnect::NvLink : Interconnect::Pcie;
  cluster.node.host_memory = Bytes{::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)};
  cluster.node.cpu_cores = std::thread::hardware_concurrency() / 2;
  return cluster;
}

}  // namespace zplan
