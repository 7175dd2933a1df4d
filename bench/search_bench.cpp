// How fast the three tiers of the search are, on the main job: bounds, full simulations, the whole search.
#include <benchmark/benchmark.h>

#include "io/catalog.h"
#include "io/gpus_option.h"
#include "plan/family.h"
#include "plan/rank.h"
#include "plan/search.h"

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
    benchmark::DoNotOptimize(memory_bound(s, q.base.model, strategy.workload, strategy.ds).peak());
    i = (i + 1) % grid.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bound);

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
