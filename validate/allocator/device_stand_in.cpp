
#include "device.h"
#include "fake_cuda.h"
#include "torch_version.h"

namespace zplan {

Device open_device() {
  Device d;
  d.name = "stand-in";
  d.torch = TORCH_VERSION;
  d.stand_in = true;
  d.rules = allocator_rules({TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR});
  d.total = Bytes{static_cast<std::int64_t>(fake_cuda::total())};
  d.set_capacity = [](Bytes capacity, std::uint64_t seed) {
    fake_cuda::set_capacity(static_cast<std::size_t>(capacity.count));
    fake_cuda::set_seed(seed);
  };
  d.last_range = fake_cuda::last_range;
  return d;
}

}  // namespace zplan
