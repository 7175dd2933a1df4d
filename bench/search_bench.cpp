// How fast the three tiers of the search are, on the main job: bounds, composed peaks, full simulations; and the whole
// search.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/catalog.h"
#include "io/gpus_option.h"
#include "plan/family.h"
#include "plan/memory_check.h"
#include "plan/rank.h"
#include "plan/search.h"
#include "step/composed_peak.h"

using namespace zplan;

namespace {

// Qwen3-8B on four A100-40G, as `zplan --model qwen3-8b --gpus 4xA100-40G` asks.
const Question& main_job() {
  static const Question question = [] {
    const DiskFiles files;
    const Catalog catalog = load_catalog(files, ZPLAN_SOURCE_DIR);
    Question q;
    q.base.model = model_named(catalog, files, "qwen3-8b", "--model");
    q.cluster = parse_gpus("4xA100-40G", catalog, files).cluster;
    q.base.gpu = q.cluster.node.gpu;
    q.base.world_size = q.cluster.world_size();
    q.base.versions = default_versions();
    q.axes = default_axes(q.base, q.cluster, q.global_batch);
    return q;
  }();
  return question;
}

void bound(benchmark::State& state) {
  const Question& q = main_job();
  const Shard s = worst_shard(q.base.model, q.base.workload, q.base.world_size);
  Strategy strategy = families(q, s).back().strategy;
  const KnobGrid grid(q.axes, strategy.ds.zero.stage);
  std::int64_t i = 0;
  for (auto _ : state) {
    grid.set(i, strategy);
    benchmark::DoNotOptimize(memory_bound(s, q.base.model, strategy.workload, strategy.ds, q.base.versions.switches).peak());
    i = (i + 1) % grid.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bound);

// Every setting of the knobs of a family, one after the other. Untimed: the parts they share, each read off once.
// Arguments: the stage; what is offloaded.
void composed_peak(benchmark::State& state) {
  const Question& q = main_job();
  const Shard s = worst_shard(q.base.model, q.base.workload, q.base.world_size);
  const auto all = families(q, s);
  const auto family = std::find_if(all.begin(), all.end(), [&](const Family& f) {
    const auto& w = f.strategy.workload;
    return f.strategy.ds.zero.stage == state.range(0) && w.recompute.every == 1 &&
           offload_of(f.strategy.ds.zero) == static_cast<Offload>(state.range(1));
  });
  const KnobGrid grid(q.axes, family->strategy.ds.zero.stage);
  std::vector<Run> runs;
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    Strategy strategy = family->strategy;
    grid.set(i, strategy);
    runs.push_back(representative(applied(strategy, q.base)));
  }
  PeakComposer composer;
  for (const Run& run : runs) composer.live(run);
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(composer.live(runs[i])->bytes);
    if (++i == runs.size()) i = 0;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["settings"] = static_cast<double>(runs.size());
  state.counters["parts"] = static_cast<double>(composer.parts_made());
}
BENCHMARK(composed_peak)
    ->Args({0, 0})->Args({1, 0})->Args({2, 0})->Args({2, 1})->Args({3, 0})->Args({3, 1})->Args({3, 2});

// One run, starting from nothing: what a setting costs that shares no part. The argument is the stage.
void composed_alone(benchmark::State& state) {
  Run run = main_job().base;
  run.ds.zero.stage = static_cast<int>(state.range(0));
  run.ds.zero.overlap_comm = run.ds.zero.stage == 3;
  run.workload.recompute.every = 1;
  for (auto _ : state) benchmark::DoNotOptimize(PeakComposer().live(run)->bytes);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(composed_alone)->Arg(2)->Arg(3)->Unit(benchmark::kMillisecond);

// Every strategy of the main job, starting from nothing.
void composed_space(benchmark::State& state) {
  const Question& q = main_job();
  const auto all = families(q, worst_shard(q.base.model, q.base.workload, q.base.world_size));
  std::int64_t evaluated = 0, parts = 0;
  for (auto _ : state) {
    PeakComposer composer;
    Run run = q.base;
    for (const auto& family : all) {
      const KnobGrid grid(q.axes, family.strategy.ds.zero.stage);
      Strategy strategy = family.strategy;
      for (std::int64_t i = 0; i < grid.size(); ++i) {
        grid.set(i, strategy);
        apply(strategy, run);
        benchmark::DoNotOptimize(composer.live(representative(run))->bytes);
      }
      evaluated += grid.size();
    }
    parts += composer.parts_made();
  }
  state.SetItemsProcessed(evaluated);
  state.counters["parts"] = static_cast<double>(parts) / static_cast<double>(state.iterations());
}
BENCHMARK(composed_space)->Iterations(1)->Unit(benchmark::kSecond);

// Three steps of Qwen3-8B: events made and replayed. The argument is the stage.
void simulate_three_steps(benchmark::State& state) {
  const Question& q = main_job();
  Run run = q.base;
  run.ds.zero.stage = static_cast<int>(state.range(0));
  run.ds.zero.overlap_comm = run.ds.zero.stage == 3;
  run.workload.recompute.every = 1;
  std::int64_t events = 0;
  for (auto _ : state) events += simulate(run, Detail::Figures).events;
  state.SetItemsProcessed(state.iterations());
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(simulate_three_steps)->Arg(2)->Arg(3)->Unit(benchmark::kMillisecond);

// The default search, on as many threads as the argument says.
void whole_search(benchmark::State& state) {
  Question q = main_job();
  q.threads = static_cast<int>(state.range(0));
  SearchCounts counts;
  for (auto _ : state) counts = search(q).counts;
  state.counters["strategies"] = static_cast<double>(counts.strategies);
  state.counters["simulated"] = static_cast<double>(counts.simulated);
}
BENCHMARK(whole_search)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
