// Step times and their bounds a second, on the main job with the knobs of the search varied.
#include <benchmark/benchmark.h>

#include <vector>

#include "io/catalog.h"
#include "io/gpus_option.h"
#include "time/step_time.h"

namespace {

using namespace zplan;

struct Job {
  std::vector<Run> runs;
  Cluster cluster;
};

Job main_job() {
  const DiskFiles files;
  const Catalog catalog = load_catalog(files, ZPLAN_SOURCE_DIR);
  Job job;
  job.cluster = parse_gpus("4xA100-40G", catalog, files).cluster;
  Run run;
  run.model = find_model(catalog, "qwen3-8b", "bench").model;
  run.gpu = job.cluster.node.gpu;
  run.world_size = job.cluster.world_size();
  for (const int stage : {1, 2, 3}) {
    for (const std::int64_t micro_batch : {1, 2, 4, 8}) {
      for (const std::int64_t live : {100'000'000, 1'000'000'000}) {
        run.ds.zero.stage = stage;
        run.ds.zero.overlap_comm = stage == 3;
        run.ds.zero.stage3_max_live_parameters = live;
        run.ds.train_micro_batch_size_per_gpu = micro_batch;
        run.ds.gradient_accumulation_steps = 16 / micro_batch;
        run.workload.recompute.every = micro_batch > 1 ? 1 : 0;
        job.runs.push_back(run);
      }
    }
  }
  return job;
}

void step_time(benchmark::State& state) {
  const Job job = main_job();
  const TimeCoefficients coefficients;
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(predict_step_time(job.runs[at], job.cluster, coefficients));
    at = (at + 1) % job.runs.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(step_time);

void step_time_bound(benchmark::State& state) {
  const Job job = main_job();
  const TimeCoefficients coefficients;
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(step_time_lower_bound(job.runs[at], job.cluster, coefficients));
    at = (at + 1) % job.runs.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(step_time_bound);

}  // namespace
