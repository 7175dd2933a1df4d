// Who this process is when a launcher started it: torchrun, Open MPI, MPICH or Slurm.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "collectives/nccl.h"

namespace zplan::trainer {

struct Launched {
  std::string by;  // "torchrun"
  int rank = 0, world = 1, local_rank = 0, local_world = 1;
};

using Environment = std::function<const char*(const char* name)>;  // std::getenv, or a map in tests

// Nothing if no launcher did. Throws InputError if its variables contradict each other.
std::optional<Launched> launched(const Environment& environment);

// Rank 0's bytes to all ranks through a TCP store at MASTER_ADDR:MASTER_PORT. Throws InputError if
// these are not set, CollectiveError if the store cannot be reached.
ShareFromRank0 share_over_tcp(const Launched& who, const Environment& environment,
                              double timeout_s);

}  // namespace zplan::trainer
