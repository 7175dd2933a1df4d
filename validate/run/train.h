// The measured fine-tune of one rank: load, init, then forward, backward and step, each phase read
// and recorded.
#pragma once

#include "collectives/communicator.h"
#include "run/plan.h"
#include "run/recorder.h"
#include "run/status.h"

namespace zplan::trainer {

struct Rank {
  Communicator* communicator = nullptr;
  RankStatus* status = nullptr;
  at::Device device = at::kCPU;
  int local = 0;  // among the ranks of this machine; 0 shows progress
};

// Throws InputError, c10::OutOfMemoryError, CollectiveError, WriteError. Fills the recorder as it
// goes.
void train(const Plan& plan, const Rank& rank, Recorder& recorder);

// The whole life of a rank: measures what the plan asks, turns every failure into a record, a
// message in the status and an exit code.
int run_rank(const Plan& plan, const Rank& rank);

}  // namespace zplan::trainer
