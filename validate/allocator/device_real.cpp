#include <cuda_runtime_api.h>
#include <torch/headeronly/version.h>

#include "device.h"

namespace zplan {

Device open_device() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  Device d;
  d.name = properties.name;
  d.torch = TORCH_VERSION;
  d.rules = allocator_rules({TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR});
  d.total = Bytes{static_cast<std::int64_t>(properties.totalGlobalMem)};
  d.set_capacity = [](Bytes, std::uint64_t) {};
  return d;
}

}  // namespace zplan
