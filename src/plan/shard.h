// What one rank of a data-parallel world owns under ZeRO: counts taken once from the inventory, so that whatever the
// search asks a million times is arithmetic only.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/model.h"
#include "spec/workload.h"

namespace zplan {

struct Shard {
  std::int64_t world_size = 1, rank = 0;
  // Whole tensors of the model, in elements.
  std::int64_t elements = 0;            // all of them, as stored: a 4-bit element counts as one
  std::int64_t trainable = 0;
  std::int64_t quantized = 0;           // of the frozen ones: elements stored in 4 bits
  std::int64_t largest = 0;             // largest trainable tensor
  std::int64_t largest_of_layer = 0;    // largest trainable tensor of a decoder layer
  std::int64_t layer = 0;               // one decoder layer, all tensors
  std::int64_t adapters = 0;            // LoRA tensors
  std::int64_t head = 0;                // [V, H]; trained or not
  bool head_trained = true;
  // ZeRO-3 (partition_parameters.py:_partition_numel): every tensor cut into ceil(numel / N).
  std::int64_t part = 0;                // trainable
  std::int64_t frozen_part = 0;
  std::int64_t adapter_part = 0;        // of `part`
  std::int64_t largest_partition = 0;   // of a trainable tensor
  // ZeRO-1/2 (stage_1_and_2.py:__init__): one flat buffer padded to 2 N, cut into N.
  std::int64_t flat = 0;
  std::int64_t flat_part = 0;
  std::int64_t touched = 0;             // P_part: full size of every tensor that reaches into this rank's part
  std::int64_t largest_slice = 0;       // largest piece of one tensor that this rank owns
  std::int64_t slices = 0;
  friend bool operator==(const Shard&, const Shard&) = default;
};

// Of every rank, in order.
std::vector<Shard> shards(const Model& model, const Workload& workload, std::int64_t world_size);
Shard shard(const Model& model, const Workload& workload, std::int64_t world_size, std::int64_t rank);

// The rank with the most to hold in the step of stages 1 and 2: 2 touched + max(8 largest_slice, 6 flat_part).
// Stage 3 cuts every tensor the same way, so that its ranks are alike.
Shard worst_shard(const Model& model, const Workload& workload, std::int64_t world_size);

}  // namespace zplan
