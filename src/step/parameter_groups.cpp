#include "step/parameter_groups.h"

#include <algorithm>

#include "units/units.h"

namespace zplan {
namespace {

bool decays(const Parameter& p) {
  switch (p.owner) {
    case Owner::QNorm:
    case Owner::KNorm:
    case Owner::InputNorm:
    case Owner::PostNorm:
    case Owner::FinalNorm: return false;
    default: return p.role != Role::Bias;
  }
}

// S12:_round_robin_reorder.
std::vector<std::int32_t> dealt_out(const std::vector<std::int32_t>& parameters, std::int64_t ranks) {
  std::vector<std::int32_t> out;
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (auto i = static_cast<std::size_t>(r); i < parameters.size(); i += static_cast<std::size_t>(ranks)) {
      out.push_back(parameters[i]);
    }
  }
  return out;
}

}  // namespace

std::vector<std::vector<std::int32_t>> parameter_groups(const Run& run, const std::vector<Parameter>& parameters) {
  std::vector<std::vector<std::int32_t>> groups(run.workload.parameter_groups == 2 ? 2 : 1);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trainable) continue;
    groups[groups.size() == 2 && !decays(parameters[i]) ? 1 : 0].push_back(static_cast<std::int32_t>(i));
  }
  groups.erase(std::remove_if(groups.begin(), groups.end(), [](const auto& g) { return g.empty(); }), groups.end());
  return groups;
}

std::vector<FlatGroup> flat_groups(const Run& run, const std::vector<Parameter>& parameters) {
  std::vector<FlatGroup> out;
  for (auto& members : parameter_groups(run, parameters)) {
    FlatGroup g;
    g.flat_order = run.ds.zero.round_robin_gradients ? dealt_out(members, run.world_size) : members;
    g.parameters = std::move(members);
    const auto numel = [&](std::int32_t p) { return parameters[static_cast<std::size_t>(p)].numel; };
    for (const auto p : g.flat_order) g.numel += numel(p);
    const auto alignment = 2 * run.world_size;  // nccl_start_alignment_factor x ranks
    g.flat = ceil_div(g.numel, alignment) * alignment;
    g.partition = g.flat / run.world_size;
    std::int64_t at = 0;
    for (const auto p : g.flat_order) {
      bool own = false;
      for (std::int64_t offset = 0; offset < numel(p);) {
        const auto rank = (at + offset) / g.partition;
        const auto n = std::min(numel(p) - offset, (rank + 1) * g.partition - at - offset);
        g.slices.push_back({p, rank, offset, n});
        if (rank == run.rank) {
          g.owned.push_back(g.slices.back());
          g.owned_numel += n;
          own = true;
        }
        offset += n;
      }
      if (own) g.owned_whole += numel(p);
      at += numel(p);
    }
    out.push_back(std::move(g));
  }
  return out;
}

}  // namespace zplan
