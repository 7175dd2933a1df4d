// Plays one rank of N alone: the other ranks are taken to hold what this one holds. No data moves
// between processes, yet every buffer of the engine is really allocated, so one GPU can check the
// memory of any world size. Values stay finite and gradients keep their scale, but the model is not
// the one N ranks would train.
#pragma once

#include "collectives/communicator.h"

namespace zplan::trainer {

std::unique_ptr<Communicator> stand_in_communicator(int rank, int size);

}  // namespace zplan::trainer
