// Everything one validation run needs, resolved from the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/status.h"
#include "spec/run.h"
#include "zero/adam.h"

namespace zplan::trainer {

// A failure acted out, so that a cluster's handling of it can be tried before it matters.
struct Rehearsal {
  enum class What { Die, Throw, Hang, OutOfMemory };
  What what = What::Die;
  int rank = 0;
  Phase phase = Phase::Forward;
  std::int64_t step = 0;
};

struct Plan {
  Run run;                             // rank: of this process, set by whoever starts it
  std::string model_name;              // as the record names it
  std::string model_overrides = "{}";  // JSON: keys of the config that were replaced
  std::string ds_config;               // JSON as given, nothing at "auto"
  AdamSettings adam;
  double norm_eps = 1e-6, rope_theta = 1e6;

  bool cuda = true;
  bool stand_in = false;
  int ranks_here = 1;  // processes on this machine
  std::int64_t timed_steps =
      0;  // whole steps without a synchronisation inside, after the measured ones
  std::uint64_t seed = 1;
  std::string tokens, weights;  // paths; empty: synthetic, random
  std::string out = "measurements.json", monitor, prediction;
  std::string id = "validate";
  bool profile = false, profile_only = false;
  double timeout_s = 600;  // longest a rank may stay in one phase or one collective
  std::optional<Rehearsal> rehearsal;
};

}  // namespace zplan::trainer
