// Device memory that NCCL takes, from its number of channels. docs/memory-model.md#nccl
#pragma once

#include <algorithm>

#include "spec/hardware.h"

namespace zplan {

// What NCCL allocates on a device comes in granules, whatever its size (NCCL 2.28 alloc.h ncclCuMemAlloc,
// comm.h CUDA_IPC_MIN).
constexpr Bytes kNcclGranule = MiB(2);
constexpr Bytes in_granules(Bytes n) { return kNcclGranule * ceil_div(n.count, kNcclGranule.count); }

// Of a communicator from its start: three structures a channel (its peers, those shared with its split-offs, the
// order of its ring) and two of its own, each in a granule.  NCCL 2.28 channel.cc initChannel, init.cc devCommSetup.
//   (3·c + 2) · 2 MiB,  c = the larger of the two kinds of channels
constexpr Bytes nccl_structures(const NcclChannels& channels) {
  return kNcclGranule * (3 * std::max(channels.collective, channels.point_to_point) + 2);
}

// From its first collective, with direct access between the GPUs: in each channel a ring's connections, one to send
// and one to receive. The receiver has the buffers of three protocols, `simple` is NCCL_BUFFSIZE.
//   c · (⌈4 KiB⌉ + ⌈LL + LL128 + simple + 4 KiB⌉) = c · (2 + 10) MiB,  c = channels of collectives
// NCCL 2.28 transport/p2p.cc p2pSendSetup, p2pRecvSetup; init.cc DEFAULT_*BUFFSIZE. Where the sender is read (Ampere
// with NVLink) it holds `simple`: 6 + 6 MiB. Without direct access the buffers are in host memory (transport/shm.cc).
constexpr Bytes nccl_ring(std::int64_t channels, Bytes simple = MiB(4)) {
  constexpr Bytes ll{8 * 512 * 8 * 16}, ll128{120 * 640 * 8 * 8}, heads{4096};
  return (in_granules(heads) + in_granules(ll + ll128 + simple + heads)) * channels;
}

// Once a process: what CUDA loads of NCCL's kernels and keeps for them, at the first process group and at the first
// collective. On H200, the same for 1 to 32 channels, with and without direct access.
constexpr Bytes kNcclLoadedAtGroup = MiB(170), kNcclLoadedAtCollective = MiB(186);

// What stands before the first collective of a process' first communicator, and what stands after it.
constexpr Bytes nccl_group(const NcclChannels& channels) { return kNcclLoadedAtGroup + nccl_structures(channels); }
constexpr Bytes nccl_communicator(const NcclChannels& channels) {
  return nccl_group(channels) + kNcclLoadedAtCollective + nccl_ring(channels.collective);
}

// Where a GPU's file has none: GPUs from compute capability 9 on with NVLink as H200, and as NCCL chose on H200 when it
// was told not to use direct access.
constexpr NcclChannels kNcclNvlink{24, 32}, kNcclPcie{4, 4};

}  // namespace zplan
