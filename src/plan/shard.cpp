#include "plan/shard.h"

#include <algorithm>

#include "inventory/parameters.h"
#include "units/units.h"

namespace zplan {
namespace {

bool is_head(const Parameter& p, const Model& model) {
  return p.role == Role::Weight && p.owner == (model.tied_embeddings ? Owner::EmbedTokens : Owner::LmHead);
}

Shard shared_counts(const std::vector<Parameter>& parameters, const Model& model, std::int64_t world_size) {
  Shard s;
  s.world_size = world_size;
  for (const auto& p : parameters) {
    const auto piece = ceil_div(p.numel, world_size);
    s.elements += p.numel;
    if (p.quantized) s.quantized += p.numel;
    if (p.adapter()) s.adapters += p.numel;
    if (p.layer == 0) s.layer += p.numel;
    if (is_head(p, model)) s.head = p.numel, s.head_trained = p.trainable;
    if (!p.trainable) {
      s.frozen_part += piece;
      continue;
    }
    s.trainable += p.numel;
    s.largest = std::max(s.largest, p.numel);
    if (p.layer >= 0) s.largest_of_layer = std::max(s.largest_of_layer, p.numel);
    s.part += piece;
    if (p.adapter()) s.adapter_part += piece;
    s.largest_partition = std::max(s.largest_partition, piece);
  }
  s.flat = round_up(s.trainable, 2 * world_size);
  s.flat_part = s.flat / world_size;
  return s;
}

}  // namespace

// The pieces of the flat buffer that each rank owns: one walk over the tensors serves every rank.
std::vector<Shard> shards(const Model& model, const Workload& workload, std::int64_t world_size) {
  const auto parameters = zplan::parameters(model, workload);
  std::vector<Shard> out(static_cast<std::size_t>(world_size), shared_counts(parameters, model, world_size));
  for (std::int64_t r = 0; r < world_size; ++r) out[static_cast<std::size_t>(r)].rank = r;
  std::int64_t at = 0;
  for (const auto& p : parameters) {
    if (!p.trainable) continue;
    const auto part = out[0].flat_part, end = at + p.numel;
    for (auto r = at / part; r * part < end; ++r) {
      auto& s = out[static_cast<std::size_t>(r)];
      const auto piece = std::min(end, (r + 1) * part) - std::max(at, r * part);
      s.touched += p.numel;
      s.largest_slice = std::max(s.largest_slice, piece);
      ++s.slices;
    }
    at = end;
  }
  return out;
}

Shard shard(const Model& model, const Workload& workload, std::int64_t world_size, std::int64_t rank) {
  return shards(model, workload, world_size)[static_cast<std::size_t>(rank)];
}

Shard worst_shard(const Model& model, const Workload& workload, std::int64_t world_size) {
  const auto all = shards(model, workload, world_size);
  return *std::max_element(all.begin(), all.end(), [](const Shard& a, const Shard& b) {
    const auto need = [](const Shard& s) { return 2 * s.touched + std::max(8 * s.largest_slice, 6 * s.flat_part); };
    return need(a) < need(b);
  });
}

}  // namespace zplan
