// A random history for the comparison: options, limits and steps, all from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/options.h"
#include "units/units.h"

namespace zplan {

struct Step {
  enum class Op {
    Allocate,
    Free,
    RecordStream,
    Close,
    Open,
    EmptyCache,
    ResetPeak,
    ResetAccumulated
  };
  Op op = Op::Allocate;
  int stream = 0;
  std::int64_t bytes = 0;    // Allocate
  std::uint64_t target = 0;  // Free, RecordStream: which live block, counted modulo their number
};

struct Episode {
  std::uint64_t seed = 0;
  std::string conf;  // every key that sticks is named, so that episodes do not touch
  Bytes limit;       // 0: no limit
  Bytes capacity;    // of the stand-in's device
  std::vector<Step> steps;
};

Episode make_episode(std::uint64_t seed, const AllocatorRules& rules, int streams,
                     std::size_t steps);
std::string text(const Step& step);

}  // namespace zplan
