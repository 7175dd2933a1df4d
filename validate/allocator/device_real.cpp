#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "device.h"
#include "torch_version.h"

namespace zplan {

Device open_device() {
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) {
    std::fprintf(stderr, "allocator_differential: no GPU: %s\n", cudaGetErrorString(error));
    std::exit(77);
  }
  Device d;
  d.name = properties.name;
  d.torch = TORCH_VERSION;
  d.rules = allocator_rules({TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR});
  d.total = Bytes{static_cast<std::int64_t>(properties.totalGlobalMem)};
  d.set_capacity = [](Bytes, std::uint64_t) {};
  return d;
}

}  // namespace zplan
