#include "plan/family.h"

#include <algorithm>
#include <cmath>

namespace zplan {
namespace {

bool allowed(const Strategy& s, const Shard& shard) {
  const auto offload = offload_of(s.ds.zero);
  if (s.ds.zero.stage == 0 && offload != Offload::None) return false;
  if (s.ds.zero.stage < 3 && offload > Offload::Optimizer) return false;
  // Offload steps with DeepSpeedCPUAdam only (zero_force_ds_cpu_optimizer).
  if (offload != Offload::None && s.workload.optimizer == OptimizerKind::Adam8bit) return false;
  return s.ds.train_micro_batch_size_per_gpu > 0 && shard.trainable > 0;
}

Strategy plain(const Question& q, int stage, Offload offload) {
  Strategy s{q.base.ds, q.base.workload, false};
  s.ds.zero.stage = stage;
  set_offload(s.ds.zero, offload);
  return s;
}

// DeepSpeed asserts that a partition fits into one swap buffer (partitioned_param_swapper.py:get_buffer).
void size_nvme_buffers(Strategy& s, const Shard& shard) {
  if (s.ds.zero.offload_param.device != OffloadDevice::Nvme) return;
  s.ds.zero.offload_param.buffer_size = std::max(s.ds.zero.offload_param.buffer_size, shard.largest_partition);
}

// Bytes beyond the bound that stage 3 keeps gathered at each moment: what max_live and reuse let it keep, and a batch
// more. An estimate: it decides which setting is tried next, never whether one fits.
Bytes gathered(const Strategy& s, const Shard& shard, PeakMoment moment) {
  const auto& z = s.ds.zero;
  if (z.stage != 3 || shard.world_size == 1 || moment >= PeakMoment::StepNorm) return {};
  const auto ahead = z.stage3_allgather_sequential ? 0 : 2 * z.stage3_prefetch_bucket_size;
  const auto live = std::min(shard.elements, z.stage3_max_live_parameters + ahead);
  return {2 * std::max(live, shard.head)};
}

Bytes estimate(const MemoryBound& bound, const Strategy& s, const Shard& shard) {
  Bytes most;
  for (std::size_t i = 0; i < kPeakMoments; ++i) {
    most = std::max(most, bound.at[i] + gathered(s, shard, static_cast<PeakMoment>(i)));
  }
  return most;
}

struct Setting {
  std::int64_t index;
  double seconds;
  int departures;
  std::int64_t time_class;  // settings of one class differ by less than the model can tell
  Bytes estimate;
};

}  // namespace

std::vector<Family> families(const Question& q, const Shard& shard) {
  std::vector<Family> out;
  Run run = q.base;
  const auto add = [&](Strategy s, const KnobGrid& grid) {
    size_nvme_buffers(s, shard);
    Family f;
    f.size = grid.size();
    grid.set_frugal(s);
    f.least_memory = memory_bound(shard, q.base.model, s.workload, s.ds, q.base.versions.switches);
    f.host = host_need(shard, s.workload, s.ds, q.base.process.host);
    grid.set_fastest(s);
    apply(s, run);
    f.least_time = step_time_lower_bound(run, q.cluster, q.coefficients);
    grid.set(0, s);
    f.strategy = std::move(s);
    out.push_back(std::move(f));
  };
  const auto sequences = q.global_batch / q.base.world_size;
  for (const int stage : q.axes.stages) {
    const KnobGrid grid(q.axes, stage);
    for (const auto offload : q.axes.offloads) {
      Strategy s = plain(q, stage, offload);
      for (const auto finetune : q.axes.finetunes) {
        s.workload.finetune = finetune;
        for (const auto optimizer : q.axes.optimizers) {
          s.workload.optimizer = optimizer;
          for (const bool fused : q.axes.fused_loss) {
            s.workload.kernels.fused_linear_cross_entropy = fused;
            for (const auto every : q.axes.recompute) {
              if (every > q.base.model.layers) continue;
              s.workload.recompute.every = every;
              for (const auto micro : q.axes.micro_batches) {
                if (sequences % micro != 0) continue;
                s.ds.train_micro_batch_size_per_gpu = micro;
                s.ds.gradient_accumulation_steps = sequences / micro;
                if (allowed(s, shard)) add(s, grid);
              }
            }
          }
        }
      }
    }
  }
  return out;
}

FamilyResult try_family(const Question& q, const Shard& shard, const Budget& budget, const Family& family, Seconds slowest) {
  constexpr int kMostSimulated = 8;
  constexpr double kRepeat = 0.03;  // steps of one configuration repeat to this; a setting that gains less is not worth it
  const KnobGrid grid(q.axes, family.strategy.ds.zero.stage);
  FamilyResult result;
  Strategy s = family.strategy;
  Run run = q.base;
  run.rank = shard.rank;

  // Time once for each set of knobs that it depends on.
  std::vector<double> seconds(static_cast<std::size_t>(grid.time_keys()));
  double fastest = 1e300;
  for (std::int64_t key = 0; key < grid.time_keys(); ++key) {
    grid.set(grid.first_of(key), s);
    apply(s, run);
    auto& t = seconds[static_cast<std::size_t>(key)];
    t = predict_step_time(run, q.cluster, q.coefficients).total().count;
    fastest = std::min(fastest, t);
  }
  if (fastest > slowest.count) {
    result.discarded_by_time = grid.size();
    return result;
  }

  std::vector<Setting> settings;
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    grid.set(i, s);
    const auto bound = memory_bound(shard, q.base.model, s.workload, s.ds, q.base.versions.switches);
    if (bound.peak() > budget.limit()) {
      ++result.discarded_by_bound;
      continue;
    }
    const double t = seconds[static_cast<std::size_t>(grid.time_key(i))];
    if (t > slowest.count) {
      ++result.discarded_by_time;
      continue;
    }
    settings.push_back({i, t, departure_count(s), static_cast<std::int64_t>(std::log(t / fastest) / std::log(1 + kRepeat)),
                        estimate(bound, s, shard)});
  }
  std::sort(settings.begin(), settings.end(), [](const Setting& a, const Setting& b) {
    if (a.time_class != b.time_class) return a.time_class < b.time_class;
    if (a.departures != b.departures) return a.departures < b.departures;
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    return a.index < b.index;
  });

  // What a setting needs beyond its estimate, as far as failures have shown; separately where segments expand.
  Bytes excess[2] = {};
  const auto look = [&](const Setting& setting) {
    Candidate c;
    grid.set(setting.index, s);
    c.strategy = s;
    c.bound = memory_bound(shard, q.base.model, s.workload, s.ds, q.base.versions.switches);
    c.host = host_need(shard, s.workload, s.ds, q.base.process.host);
    c.nvme = nvme_need(shard, s.ds);
    c.departures = setting.departures;
    apply(s, run);
    c.time = predict_step_time(run, q.cluster, q.coefficients);
    c.memory = check_memory(representative(run), budget.limit(), budget.safe());
    c.fits = c.memory.completes_within(budget.limit());
    c.safe = c.memory.completes_within(budget.safe());
    ++result.simulated;
    return c;
  };
  const auto too_large = [](const Candidate& c) { return std::max(c.memory.allocated, c.bound.peak()); };
  std::vector<bool> tried(settings.size(), false);
  while (result.simulated < kMostSimulated) {
    std::size_t next = settings.size();
    for (std::size_t i = 0; i < settings.size(); ++i) {
      grid.set(settings[i].index, s);
      if (tried[i] || settings[i].estimate + excess[s.expandable_segments] > budget.safe()) continue;
      next = i;
      break;
    }
    if (next == settings.size()) {  // none is expected to fit: the least of them, once
      if (result.best || result.nearest || settings.empty()) break;
      next = static_cast<std::size_t>(std::min_element(settings.begin(), settings.end(),
                                                       [](const Setting& a, const Setting& b) { return a.estimate < b.estimate; }) -
                                      settings.begin());
    }
    tried[next] = true;
    const Candidate c = look(settings[next]);
    if (c.memory.cannot_run) {
      result.cannot_run = *c.memory.cannot_run;
      break;
    }
    if (c.safe) {
      result.best = c;
      return result;
    }
    if (c.fits && !result.best) result.best = c;
    if (!c.fits && (!result.nearest || too_large(c) < too_large(*result.nearest))) result.nearest = c;
    // The next one must need less than this one, by what failed or by a step that is worth a simulation.
    auto& e = excess[c.strategy.expandable_segments];
    const auto shortfall = std::max(c.memory.allocated, budget.safe() + MiB(128)) - settings[next].estimate;
    e = std::max(e, shortfall);
  }
  return result;
}

}  // namespace zplan
