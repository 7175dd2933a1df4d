// zplan simulate: what one given configuration does to memory and time, phase by phase.
#include <algorithm>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "io/catalog.h"
#include "io/json_text.h"
#include "io/report_json.h"
#include "io/report_text.h"
#include "plan/shard.h"

namespace zplan {
namespace {

struct Options {
  RunOptions run;
  bool json = false;
};

// One rank for each way of owning the model: the others repeat them.
std::vector<std::int64_t> different_ranks(const Run& run) {
  if (run.ds.zero.stage == 0 || run.ds.zero.stage == 3) return {0};
  std::vector<std::int64_t> ranks;
  std::vector<Shard> seen;
  for (Shard s : shards(run.model, run.workload, run.world_size)) {
    const auto rank = std::exchange(s.rank, 0);
    if (std::find(seen.begin(), seen.end(), s) != seen.end()) continue;
    seen.push_back(s);
    ranks.push_back(rank);
  }
  return ranks;
}

SimulationReport report_of(const RunInputs& in) {
  const Run& run = in.run;
  SimulationReport r;
  r.version = ZPLAN_VERSION;
  r.cluster = in.cluster;
  r.assumptions = in.assumptions;
  r.notes = in.notes;
  const auto ranks = in.all_ranks ? different_ranks(run) : std::vector<std::int64_t>{run.rank};
  std::vector<Simulation> all;
  for (const auto rank : ranks) {
    Run one = run;
    one.rank = rank;
    all.push_back(simulate(one));
    if (in.all_ranks) {
      const auto& s = all.back();
      r.ranks.push_back({rank, s.peak.allocated, s.peak.reserved, s.smallest_capacity, s.oom.has_value()});
    }
  }
  const auto worst = std::max_element(all.begin(), all.end(), [](const Simulation& a, const Simulation& b) {
    return std::make_pair(a.oom.has_value(), a.smallest_capacity) < std::make_pair(b.oom.has_value(), b.smallest_capacity);
  });
  r.simulation = *worst;
  r.run = run;
  r.run.rank = worst->rank;
  const auto s = shard(run.model, run.workload, run.world_size, r.run.rank);
  r.host = host_need(s, run.workload, run.ds, run.process.host);
  r.nvme = nvme_need(s, run.ds) * in.cluster.node.gpus;
  r.time = predict_step_time(run, in.cluster, in.coefficients);
  return r;
}

}  // namespace

void add_simulate(Program& program) {
  const auto options = std::make_shared<Options>();
  options->run.profiles = program.profiles;
  CLI::App* command = program.app.add_subcommand("simulate", "What one given configuration does, phase by phase");
  add_run_options(*command, options->run);
  add_simulation_options(*command, options->run);
  command->add_flag("--json", options->json, "Print zplan.simulation/1");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, data);
      const RunInputs in = run_inputs(options->run, Purpose::Simulate, catalog, files);
      const SimulationReport r = report_of(in);
      console.out << (options->json ? json_text(simulation_json(r)) + "\n" : simulation_text(r, {console.colour}));
      return r.simulation.fits() ? 0 : 1;
    };
  });
}

}  // namespace zplan
