// What a part of a composed peak depends on: the run, in which settings that the part never looks at have their default
// values. Runs that differ in nothing else share the part. docs/memory-model.md#composed-peaks
#pragma once

#include <cstddef>
#include <cstdint>

#include "spec/run.h"

namespace zplan {

// Of runs of one model, world, GPU and set of versions.
struct PartKey {
  DsConfig ds;
  Workload workload;
  std::int64_t rank = 0, steps = 0;
  std::size_t schedule = 0;  // which calls an engine's side is driven by; of a model's part: 0
  friend bool operator==(const PartKey&, const PartKey&) = default;
};

struct PartKeyHash {
  std::size_t operator()(const PartKey& key) const;
};

PartKey key_of_model(const Run& run);
PartKey key_of_weights(const Run& run, std::size_t schedule);
PartKey key_of_states(const Run& run, std::size_t schedule);

// The run that a part is read off: it has what is in the key and nothing else.
Run run_of(const PartKey& key, Run run);

}  // namespace zplan
