#include "plan/why_not.h"

#include <algorithm>
#include <functional>

#include "plan/family.h"
#include "plan/parallel.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr int kMostGpuDoublings = 9;

// The least that any setting of a stage and offload needs, in another world or with other kernels. Host memory counts.
struct Least {
  Bytes need{std::int64_t{1} << 62};
  Bytes host{std::int64_t{1} << 62};
  Strategy strategy;
};

Least least_of(const Question& q, std::int64_t world_size, Bytes limit) {
  const auto s = worst_shard(q.base.model, q.base.workload, world_size);
  Least least;
  for (const auto& f : families(q, s)) {
    const Bytes need = f.least_memory.peak(), host = q.cluster.node.gpus * f.host.total();
    // Of those that fit, the one with the least host memory; else the one with the least device memory.
    const bool fits = need <= limit, fitted = least.need <= limit;
    if (fits && fitted ? host < least.host : need < least.need) least = {need, host, f.strategy};
  }
  return least;
}

Question with_world(const Question& q, std::int64_t world_size) {
  Question more = q;
  more.base.world_size = world_size;
  more.global_batch = round_up(q.global_batch, world_size);
  more.cluster.nodes = std::max<std::int64_t>(1, world_size / q.cluster.node.gpus);
  more.axes = default_axes(more.base, more.cluster, more.global_batch);
  more.axes.stages = q.axes.stages, more.axes.offloads = q.axes.offloads, more.axes.recompute = q.axes.recompute;
  more.axes.fused_loss = q.axes.fused_loss, more.axes.optimizers = q.axes.optimizers;
  return more;
}

Question with_fused_loss(const Question& q) {
  Question fused = q;
  fused.axes.fused_loss = {true};
  return fused;
}

Question with_8bit(const Question& q) {
  Question eight = q;
  eight.axes.optimizers = {OptimizerKind::Adam8bit};
  return eight;
}

double seconds_of(const Question& q, const Strategy& s) {
  return predict_step_time(applied(s, q.base), q.cluster, q.coefficients).total().count;
}

// What could make a stage and offload fit by its bound, changed outside what the search may choose.
Change cheapest_change(const Question& q, const SearchResult& result, const Group& g, const Plan* plan) {
  Question only = q;
  only.axes.stages = {g.stage};
  only.axes.offloads = {g.offload};
  const Bytes limit = result.budget.safe();
  const auto ratio = [&](const Question& changed, const Strategy& s) -> std::optional<double> {
    if (!plan || changed.base.world_size != q.base.world_size) return std::nullopt;
    return seconds_of(changed, s) / plan->candidate.time.total().count;
  };
  const auto try_one = [&](const Question& changed, const std::string& text) -> Change {
    const auto least = least_of(changed, changed.base.world_size, limit);
    if (least.need > limit) return {};
    return {text, least.need, ratio(changed, least.strategy)};
  };
  const bool fused_open = std::find(q.axes.fused_loss.begin(), q.axes.fused_loss.end(), true) == q.axes.fused_loss.end();
  if (fused_open) {
    if (auto c = try_one(with_fused_loss(only), "fused loss (--allow liger)"); !c.empty()) return c;
  }
  if (g.offload == Offload::None && q.axes.optimizers.front() != OptimizerKind::Adam8bit) {
    if (auto c = try_one(with_8bit(only), "8-bit Adam (--allow bitsandbytes)"); !c.empty()) return c;
  }
  for (int i = 1; i <= kMostGpuDoublings; ++i) {
    const auto world = q.base.world_size << i;
    if (auto c = try_one(with_world(only, world), std::to_string(world) + " of these GPUs"); !c.empty()) return c;
  }
  const auto least = least_of(only, q.base.world_size, limit);
  const Bytes card = least.need + result.budget.outside + result.budget.margin();
  return {"GPUs of " + text(card, 0), least.need, std::nullopt};
}

// The largest component that is there at the bound's moment, where nothing has been simulated.
void largest_term(const MemoryBound& b, Rejection& r) {
  const auto& p = b.persistent;
  const std::pair<const char*, Bytes> terms[] = {{"parameters", p.parameters}, {"gradients", p.gradients}, {"optimizer", p.optimizer},
                                                 {"comm_buckets", p.buckets}, {text(b.moment()), b.peak() - p.total()}};
  const auto most = std::max_element(std::begin(terms), std::end(terms), [](const auto& x, const auto& y) { return x.second < y.second; });
  r.component = most->first;
  r.component_bytes = most->second;
  r.moment = text(b.moment());
  r.need = b.peak();
}

Rejection reject(const Question& q, const SearchResult& result, const Group& g, const Plan* plan) {
  Rejection r;
  r.family = group_name(g.stage, g.offload);
  r.rank = g.stage == 1 || g.stage == 2 ? result.shard.rank : 0;  // the others are alike on every rank
  if (g.best) {
    const auto& c = *g.best;
    r.strategy = c.strategy;
    r.fits = true;
    r.need = c.memory.completed.value_or(c.memory.reserved);
    r.limiter = limiter_text(c.time, applied(c.strategy, q.base));
    if (plan) r.slower = c.time.total().count / plan->candidate.time.total().count;
    return r;
  }
  if (!g.cannot_run.empty() && !g.nearest) {
    r.cannot_run = g.cannot_run;
    return r;
  }
  if (g.host_short > Bytes{}) r.host_over = g.host_short;
  if (g.nearest) {
    const auto& c = *g.nearest;
    r.strategy = c.strategy;
    if (c.memory.allocated > Bytes{}) {
      const auto s = simulate(representative(applied(c.strategy, q.base)), Detail::Components);
      const auto most = std::max_element(s.peak.by_component.begin(), s.peak.by_component.end());
      r.component = kComponentNames[static_cast<std::size_t>(most - s.peak.by_component.begin())];
      r.component_bytes = *most;
      r.moment = std::string(zplan::name(s.peak.at.phase)) + ", " + s.peak.at.event;
      r.need = std::max(s.peak.allocated, c.bound.peak());
      if (r.need <= result.budget.limit()) r.need = s.peak.reserved;  // fragmentation is what binds
    } else {
      largest_term(c.bound, r);
    }
    r.over = r.need - result.budget.limit();
  }
  if (r.host_over.count == 0) r.change = cheapest_change(q, result, g, plan);
  else r.change = {text(r.host_over + *(q.max_host_ram ? q.max_host_ram : q.cluster.node.host_memory), 0) + " of host memory a node (--host-ram)", {}, std::nullopt};
  return r;
}

}  // namespace

std::vector<Rejection> why_not(const Question& q, const SearchResult& result, const Plan* plan) {
  std::vector<const Group*> others;
  for (const auto& g : result.groups) {
    const bool own = plan && g.stage == plan->candidate.strategy.ds.zero.stage && g.offload == offload_of(plan->candidate.strategy.ds.zero);
    if (!own && (g.best || g.nearest || !g.cannot_run.empty() || g.host_short > Bytes{})) others.push_back(&g);
  }
  std::vector<Rejection> out(others.size());
  in_parallel(others.size(), q.threads, [&](std::size_t i) { out[i] = reject(q, result, *others[i], plan); });
  return out;
}

std::vector<SettingReason> setting_reasons(const Question& q, const SearchResult& result, const Plan& plan) {
  const Strategy& chosen = plan.candidate.strategy;
  const ZeroConfig usual;
  std::vector<std::pair<std::string, Strategy>> without;
  const auto add = [&](const std::function<void(Strategy&)>& undo) {
    Strategy s = chosen;
    undo(s);
    if (s == chosen) return;
    // The setting's text is the one that undoing it removes.
    const auto before = departures(chosen), after = departures(s);
    for (const auto& d : before) {
      if (std::find(after.begin(), after.end(), d) == after.end()) without.push_back({d, s});
    }
  };
  add([](Strategy& s) { s.expandable_segments = false; });
  add([](Strategy& s) { s.workload.kernels.fused_linear_cross_entropy = false; });
  add([](Strategy& s) { s.ds.zero.overlap_comm = s.ds.zero.stage == 3; });
  add([&](Strategy& s) { s.ds.zero.reduce_bucket_size = usual.reduce_bucket_size; });
  add([&](Strategy& s) { s.ds.zero.sub_group_size = usual.sub_group_size; });
  add([&](Strategy& s) { s.ds.zero.stage3_max_live_parameters = usual.stage3_max_live_parameters; });
  add([&](Strategy& s) { s.ds.zero.stage3_max_reuse_distance = usual.stage3_max_reuse_distance; });
  add([&](Strategy& s) { s.ds.zero.stage3_prefetch_bucket_size = usual.stage3_prefetch_bucket_size; });
  add([&](Strategy& s) { s.ds.zero.stage3_param_persistence_threshold = usual.stage3_param_persistence_threshold; });
  add([](Strategy& s) { s.ds.zero.stage3_allgather_sequential = false; });
  std::vector<SettingReason> out(without.size());
  in_parallel(without.size(), q.threads, [&](std::size_t i) {
    Run run = applied(without[i].second, q.base);
    run.rank = result.shard.rank;
    const auto check = check_memory(representative(run), result.budget.limit(), result.budget.safe());
    out[i] = {without[i].first, !check.completes_within(result.budget.safe()), check.reserved, check.allocated,
              predict_step_time(run, q.cluster, q.coefficients).total().count / plan.candidate.time.total().count};
  });
  return out;
}

std::vector<Change> what_would_fit(const Question& q, const SearchResult& result) {
  std::vector<Change> changes;
  const Bytes limit = result.budget.safe();
  const auto host = q.max_host_ram ? q.max_host_ram : q.cluster.node.host_memory;
  const auto try_one = [&](const Question& changed, const std::string& text) {
    const auto least = least_of(changed, changed.base.world_size, limit);
    if (least.need > limit || (host && least.host > *host)) return false;
    changes.push_back({text + ": " + name(least.strategy), least.need, std::nullopt});
    return true;
  };
  if (!q.axes.fused_loss.front()) try_one(with_fused_loss(q), "fused loss (--allow liger)");
  if (q.axes.optimizers.front() != OptimizerKind::Adam8bit) try_one(with_8bit(q), "8-bit Adam (--allow bitsandbytes)");
  if (host) {
    const auto least = least_of(q, q.base.world_size, limit);
    if (least.need <= limit && least.host > *host) {
      changes.push_back({"host memory of " + text(least.host, 0) + " a node instead of " + text(*host, 0) + " (--host-ram): " + name(least.strategy),
                         least.need, std::nullopt});
    }
  }
  if (q.base.workload.finetune == Finetune::Full) {
    Question lora = q;
    lora.base.workload.finetune = Finetune::Lora;
    lora.axes.finetunes = {Finetune::Lora};
    if (!try_one(lora, "adapters instead of all weights (--finetune lora)")) {
      lora.base.workload.finetune = Finetune::Qlora;
      lora.axes.finetunes = {Finetune::Qlora};
      try_one(lora, "adapters on 4-bit weights (--finetune qlora)");
    }
  }
  for (int i = 1; i <= kMostGpuDoublings; ++i) {
    const auto world = q.base.world_size << i;
    if (try_one(with_world(q, world), std::to_string(world) + " of these GPUs")) break;
  }
  return changes;
}

}  // namespace zplan
