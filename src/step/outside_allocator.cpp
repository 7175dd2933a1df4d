// Bytes of a training process that torch's allocator does not hand out. docs/memory-model.md#outside
#include <cstdlib>

#include "step/nccl_memory.h"
#include "step/simulation.h"

namespace zplan {
namespace {

// Context of a torch process where nobody has measured this GPU: 614 MiB is what out-of-memory texts of A100-40G show
// for an idle neighbour, 612 and 618 those of H200 and B300.
constexpr Bytes kContext = MiB(614);

// Kernels that CUDA loads when they are first used (lazy loading): measured on H200, from the start of the process to
// the end of the first backward, 0.19 GiB in deepspeed.initialize and 0.15 GiB in the first step.
constexpr Bytes kLoadedKernels{361'000'000};

// One communicator, as large as it gets: process group, then channels at the first collective.
Bytes communicator(const Run& run) {
  if (run.world_size == 1) return {};
  const bool nvlink = run.gpu.nvlink_gb_per_s.has_value();
  const bool hopper = std::atoi(run.gpu.compute_capability.c_str()) >= 9;
  if (nvlink && !hopper && !run.gpu.nccl_channels) {
    // 4 x A100 with NVLink, NCCL of 2023, NVIDIA/nccl issue 964: 544 MiB for two and 688 MiB for more ranks. That is 256
    // MiB and 24 channels of a ring, and beyond two ranks a tree's connection of 6 MiB in each.
    return MiB(256) + nccl_ring(24) + (run.world_size > 2 ? MiB(6) * 24 : Bytes{});
  }
  // With eight GPUs NVLS adds 16 channels of 2 x 1 MiB a head: an estimate.
  const Bytes nvls = nvlink && run.world_size > 4 ? MiB(256) : Bytes{};
  return nccl_communicator(run.gpu.nccl_channels.value_or(nvlink ? kNcclNvlink : kNcclPcie)) + nvls;
}

}  // namespace

OutsideAllocator outside_allocator(const Run& run) {
  OutsideAllocator o;
  o.cuda_context = run.gpu.context.value_or(kContext);
  o.nccl = run.world_size == 1 ? Bytes{} : run.process.nccl.value_or(communicator(run));
  o.other = run.process.kernels.value_or(kLoadedKernels);
  return o;
}

}  // namespace zplan
