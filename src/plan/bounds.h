// Closed-form lower bounds of what torch's allocator has handed out at the moments that can be the peak. They prune
// the search, and check the simulator, which must never fall below them. docs/memory-model.md#bounds
#pragma once

#include <array>
#include <cstdint>

#include "plan/shard.h"
#include "spec/ds_config.h"
#include "spec/model.h"
#include "spec/versions.h"
#include "spec/workload.h"
#include "units/units.h"

namespace zplan {

// The moments looked at, in the order of a step.
enum class PeakMoment : std::uint8_t {
  ForwardLoss,       // log-softmax of the loss: 10 NV
  BackwardLoss,      // its backward: 12 NV
  BackwardHead,      // gradient of the head, and the buckets it goes into
  BackwardLastLayer, // everything below is still kept
  BackwardFirstLayer,// gradients of everything above are made
  BackwardEnd,       // gradient of the embedding
  StepNorm,          // the norm of the largest piece, in double
  StepCast,          // gradients flattened and cast to fp32
};
constexpr std::size_t kPeakMoments = 8;
// "cast of the gradients to fp32 in the step".
const char* text(PeakMoment moment);

// What lives through the whole step from the second on.
struct PersistentBytes {
  Bytes parameters, gradients, optimizer, buckets;
  constexpr Bytes total() const { return parameters + gradients + optimizer + buckets; }
};

struct MemoryBound {
  PersistentBytes persistent;
  std::array<Bytes, kPeakMoments> at{};
  constexpr PeakMoment moment() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < kPeakMoments; ++i) {
      if (at[i] > at[best]) best = i;
    }
    return static_cast<PeakMoment>(best);
  }
  constexpr Bytes peak() const { return at[static_cast<std::size_t>(moment())]; }
};

// Of a run of two steps and more.
MemoryBound memory_bound(const Shard& shard, const Model& model, const Workload& workload, const DsConfig& ds,
                         const DeepSpeedSwitches& switches);

}  // namespace zplan
