#include "plan/ways_out.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "plan/family.h"
#include "plan/parallel.h"
#include "spec/error.h"
#include "spec/versions.h"

namespace zplan {
namespace {

constexpr int kMostGpuDoublings = 4;
constexpr double kRepeat = 0.03;  // steps of one configuration repeat to this: those nearer are as fast

// A change that no setting of a family makes.
struct LargeChange {
  std::string text;  // empty: none
  Run run;
  Cluster cluster;
  std::string needs;
};

// The run's own value first, then those of the usual axis that take less.
std::vector<std::int64_t> from(std::int64_t own, std::vector<std::int64_t> axis) {
  std::erase_if(axis, [&](std::int64_t v) { return v >= own; });
  axis.insert(axis.begin(), own);
  return axis;
}
std::vector<bool> from(bool own) { return own ? std::vector<bool>{true} : std::vector<bool>{false, true}; }

// One family: the run as it is, and every setting that takes less.
Question question_of(const LargeChange& c, const TimeCoefficients& coefficients) {
  Question q;
  q.base = c.run;
  q.cluster = c.cluster;
  q.coefficients = coefficients;
  q.threads = 1;
  const DsConfig& ds = c.run.ds;
  const ZeroConfig& z = ds.zero;
  q.global_batch = ds.train_micro_batch_size_per_gpu * ds.gradient_accumulation_steps * c.run.world_size;
  const Strategy own = strategy_of(c.run);
  Axes& a = q.axes;
  a.stages = {z.stage};
  a.offloads = {offload_of(z)};
  a.micro_batches = {ds.train_micro_batch_size_per_gpu};
  a.recompute = {c.run.workload.recompute.every};
  a.fused_loss = {c.run.workload.kernels.fused_linear_cross_entropy};
  a.finetunes = {c.run.workload.finetune};
  a.optimizers = {c.run.workload.optimizer};
  a.expandable_segments = from(own.expandable_segments);
  a.overlap_comm = z.overlap_comm ? std::vector{Overlap::On, Overlap::Off} : std::vector{Overlap::Off};
  a.reduce_buckets = from(z.reduce_bucket_size, a.reduce_buckets);
  a.sub_groups = from(z.sub_group_size, a.sub_groups);
  a.max_live = from(z.stage3_max_live_parameters, a.max_live);
  a.max_reuse = from(z.stage3_max_reuse_distance, a.max_reuse);
  a.prefetch = from(z.stage3_prefetch_bucket_size, a.prefetch);
  a.persistence = {z.stage3_param_persistence_threshold};
  a.sequential = from(z.stage3_allgather_sequential);
  return q;
}

// Calls visit(member) for every axis that is a setting.
template <class Visit>
void for_each_setting(const Visit& visit) {
  visit(&Axes::expandable_segments), visit(&Axes::overlap_comm), visit(&Axes::sequential);
  visit(&Axes::reduce_buckets), visit(&Axes::sub_groups), visit(&Axes::max_live), visit(&Axes::max_reuse);
  visit(&Axes::prefetch), visit(&Axes::persistence);
}

// Nothing but the run's own values, which stand first.
Axes own_values(Axes axes) {
  for_each_setting([&](auto member) { (axes.*member).resize(1); });
  return axes;
}

// The same with one setting free, for each of them.
std::vector<Axes> single_settings(const Axes& all) {
  std::vector<Axes> out;
  for_each_setting([&](auto member) {
    if ((all.*member).size() < 2) return;
    out.push_back(own_values(all));
    out.back().*member = all.*member;
  });
  return out;
}

std::vector<LargeChange> large_changes(const Run& run, const Cluster& cluster) {
  std::vector<LargeChange> out;
  const auto add = [&](const std::string& text, const std::string& needs, const std::function<void(Run&)>& change) {
    LargeChange c{text, run, cluster, needs};
    change(c.run);
    out.push_back(std::move(c));
  };
  const auto& w = run.workload;
  const auto& z = run.ds.zero;
  const auto micro = run.ds.train_micro_batch_size_per_gpu;
  const bool adapters = w.adapted();
  add("", "", [](Run&) {});
  if (w.recompute.every == 0 && run.versions.transformers >= first_checkpointing_every_n_layers)
    add("recomputation of every 2nd layer (--recompute every-2)", "", [](Run& r) { r.workload.recompute.every = 2; });
  if (w.recompute.every != 1)
    add("full recomputation (--recompute full)", "", [](Run& r) { r.workload.recompute.every = 1; });
  for (std::int64_t by = 2; by <= micro && micro % by == 0; by *= 2) {
    add("micro-batch " + std::to_string(micro / by) + ", " + std::to_string(run.ds.gradient_accumulation_steps * by) +
            " of them a step",
        "", [by](Run& r) {
          r.ds.train_micro_batch_size_per_gpu /= by;
          r.ds.gradient_accumulation_steps *= by;
        });
  }
  if (!w.kernels.fused_linear_cross_entropy) {
    add("fused loss (--fused-loss)", "liger-kernel",
        [](Run& r) { r.workload.kernels.fused_linear_cross_entropy = true; });
  }
  const auto offload = offload_of(z);
  if (offload == Offload::None && w.optimizer != OptimizerKind::Adam8bit && !adapters) {
    add("8-bit Adam (--optimizer bitsandbytes-adamw8bit)", "bitsandbytes",
        [](Run& r) { r.workload.optimizer = OptimizerKind::Adam8bit; });
  }
  for (int stage = std::max(1, z.stage); stage <= 3; ++stage) {
    for (const auto place : {Offload::None, Offload::Optimizer, Offload::OptimizerAndParameters}) {
      if (place < offload || (stage == z.stage && place == offload) || (stage < 3 && place > Offload::Optimizer))
        continue;
      if (place != Offload::None && w.optimizer == OptimizerKind::Adam8bit) continue;
      add(group_name(stage, place), "", [stage, place](Run& r) {
        if (stage == 3 && r.ds.zero.stage < 3) r.ds.zero.overlap_comm = true;  // DeepSpeed's default there
        r.ds.zero.stage = stage;
        set_offload(r.ds.zero, place);
      });
    }
  }
  return out;
}

LargeChange more_gpus(const Run& run, const Cluster& cluster, std::int64_t times) {
  LargeChange c{std::to_string(run.world_size * times) + " of these GPUs", run, cluster, ""};
  c.run.world_size *= times;
  c.cluster.nodes *= times;
  c.run.ds.gradient_accumulation_steps = std::max<std::int64_t>(1, run.ds.gradient_accumulation_steps / times);
  return c;
}

// Settings of `after` that `before` does not have, and those it no longer has.
std::string settings_changed(const Strategy& before, const Strategy& after) {
  const auto old = departures(before), now = departures(after);
  std::string out;
  const auto add = [&](const std::string& s) { out += (out.empty() ? "" : ", ") + s; };
  const auto has = [](const std::vector<std::string>& in, const std::string& s) {
    return std::find(in.begin(), in.end(), s) != in.end();
  };
  if (before.ds.zero.overlap_comm && !after.ds.zero.overlap_comm) add("overlap_comm off");
  for (const auto& s : now) {
    if (!has(old, s) && s != "overlap_comm off") add(s);
  }
  return out;
}

std::optional<WayOut> try_change(const LargeChange& c, const Question& q, const Run& run, Bytes limit,
                                 Seconds as_is) {
  const auto shard = worst_shard(c.run.model, c.run.workload, c.run.world_size);
  Budget b = budget(c.run);
  b.device = limit + b.outside;
  const auto all = families(q, shard);
  if (all.empty()) return std::nullopt;
  const Bytes host = c.cluster.node.gpus * all.front().host.total();
  if (c.cluster.node.host_memory && host > *c.cluster.node.host_memory) return std::nullopt;
  const auto result = try_family(q, shard, b, all.front(), Seconds{1e300});
  if (!result.best) return std::nullopt;
  WayOut way;
  way.strategy = result.best->strategy;
  way.text = c.text;
  if (const auto settings = settings_changed(strategy_of(c.run), way.strategy); !settings.empty()) {
    way.text += (way.text.empty() ? "" : " with ") + settings;
  }
  if (way.text.empty()) way.text = "as it is: simulated, it fits";
  way.need = *result.best->memory.completed;
  way.by_margin = result.best->safe;
  if (c.run.world_size == run.world_size) way.slower = result.best->time.total().count / as_is.count;
  way.host = host;
  way.needs = c.needs;
  return way;
}

// A change alone; where that is not enough, with settings: one of them where nothing else changes, else as many as it
// takes.
std::vector<WayOut> ways_of(const LargeChange& c, const Run& run, Bytes limit, const TimeCoefficients& coefficients,
                            Seconds as_is) {
  std::vector<WayOut> out;
  Question q = question_of(c, coefficients);
  const Axes all = q.axes;
  // True: one that leaves the margin is among them.
  const auto tried = [&](const Axes& axes) {
    q.axes = axes;
    const auto way = try_change(c, q, run, limit, as_is);
    const auto same = [&](const WayOut& w) { return w.strategy == way->strategy; };
    if (!way || std::any_of(out.begin(), out.end(), same)) return false;
    out.push_back(*way);
    return way->by_margin;
  };
  if (tried(own_values(all))) return out;
  bool enough = false;
  if (c.text.empty()) {
    for (const auto& axes : single_settings(all)) enough = tried(axes) || enough;
  }
  // More settings that leave no margin either are no better than fewer.
  const auto simpler = out.size();
  if (!enough && !tried(all) && simpler > 0 && out.size() > simpler) out.pop_back();
  return out;
}

}  // namespace

std::vector<WayOut> ways_out(const Run& given, const Cluster& cluster, Bytes limit,
                             const TimeCoefficients& coefficients) {
  Run run = given;
  run.capacity_limit.reset();
  const Seconds as_is = predict_step_time(run, cluster, coefficients).total();
  const auto changes = large_changes(run, cluster);
  std::vector<std::vector<WayOut>> tried(changes.size());
  const auto try_one = [&](const LargeChange& change) -> std::vector<WayOut> {
    try {
      return ways_of(change, run, limit, coefficients, as_is);
    } catch (const InputError&) {
      return {};  // DeepSpeed or the simulator refuses it
    }
  };
  in_parallel(changes.size(), 2, [&](std::size_t i) { tried[i] = try_one(changes[i]); });
  std::vector<WayOut> out;
  for (const auto& ways : tried) out.insert(out.end(), ways.begin(), ways.end());
  for (int i = 1; out.empty() && i <= kMostGpuDoublings && run.ds.zero.stage > 0; ++i) {
    out = try_one(more_gpus(run, cluster, std::int64_t{1} << i));
  }
  double fastest = 1e300;
  for (const auto& w : out) fastest = std::min(fastest, w.slower.value_or(1e300));
  const auto cost = [&](const WayOut& w) {
    const int time = w.slower ? static_cast<int>(std::log(*w.slower / fastest) / std::log(1 + kRepeat)) : 0;
    return std::make_tuple(!w.by_margin, time, !w.needs.empty(), departure_count(w.strategy));
  };
  std::stable_sort(out.begin(), out.end(), [&](const WayOut& a, const WayOut& b) { return cost(a) < cost(b); });
  return out;
}

}  // namespace zplan
