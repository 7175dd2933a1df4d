// Parameter groups of the optimizer, and how ZeRO-1/2 cuts a group's flat buffer into partitions.
// Derived in docs/stages-0-2.md#zero12.
#pragma once

#include <cstdint>
#include <vector>

#include "inventory/parameters.h"
#include "spec/run.h"

namespace zplan {

// Trainable parameters by group, in order. Two groups: HF's decay and no-decay (transformers trainer.py,
// get_decay_parameter_names: biases and norms do not decay).
std::vector<std::vector<std::int32_t>> parameter_groups(const Run& run, const std::vector<Parameter>& parameters);

// A piece of a parameter in one rank's partition.
struct Slice {
  std::int32_t parameter = -1;
  std::int64_t rank = 0;
  std::int64_t offset = 0;  // first element, in the parameter
  std::int64_t numel = 0;
};

// One group's flat buffer (S12:__init__): parameters one after the other, padded to a multiple of 2*N.
struct FlatGroup {
  std::vector<std::int32_t> parameters;   // as the optimizer has them
  std::vector<std::int32_t> flat_order;   // round_robin_gradients: dealt out in turn
  std::int64_t numel = 0;                 // without padding
  std::int64_t flat = 0;                  // with
  std::int64_t partition = 0;             // flat / N
  std::vector<Slice> slices;              // of every parameter, in flat order
  std::vector<Slice> owned;               // this rank's
  std::int64_t owned_numel = 0;           // of them
  std::int64_t owned_whole = 0;           // full size of the parameters they belong to
};
std::vector<FlatGroup> flat_groups(const Run& run, const std::vector<Parameter>& parameters);

}  // namespace zplan
