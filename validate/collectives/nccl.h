// Ranks on GPUs over NCCL, one process a GPU. Collectives are queued on the current stream.
#pragma once

#include <functional>

#include "collectives/communicator.h"

namespace zplan::trainer {

// How rank 0's id reaches the others: every rank calls it, with rank 0's bytes in `data` on rank 0,
// and finds them in `data` afterwards.
using ShareFromRank0 = std::function<void(void* data, std::size_t bytes)>;

std::unique_ptr<Communicator> nccl_communicator(int rank, int size, at::Device device,
                                                const ShareFromRank0& share);

}  // namespace zplan::trainer
