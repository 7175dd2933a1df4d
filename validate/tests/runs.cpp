#include "runs.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "collectives/process.h"
#include "collectives/stand_in.h"
#include "run/arguments.h"
#include "run/train.h"

namespace zplan::trainer {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "zplan-validate-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  folder_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Plan tiny_plan() {
  Plan plan;
  Model& m = plan.run.model;
  m.name = plan.model_name = "tiny";
  m.hidden = 32;
  m.intermediate = 64;
  m.layers = 3;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 8;
  m.vocab = 96;
  m.qk_norm = true;
  plan.run.workload.seq_len = 32;
  plan.run.workload.load = Load::Cpu;
  plan.run.ds.train_micro_batch_size_per_gpu = 4;
  plan.run.ds.precision = Precision::Fp32;
  plan.run.steps = 20;
  plan.adam.lr = 1e-2;
  plan.ds_config = "{}";
  plan.cuda = false;
  plan.timeout_s = 20;
  return plan;
}

Outcome run(Plan plan, const TemporaryFolder& folder) {
  plan.out = folder.path("measurements.json");
  const int ranks = plan.ranks_here = plan.stand_in ? 1 : static_cast<int>(plan.run.world_size);
  StatusPage page(ranks);
  const SharedArena arena(ranks, 4096);  // small: collectives go through it in pieces
  const auto body = [&](int rank) {
    at::set_num_threads(1);
    Plan mine = plan;
    if (!plan.stand_in) mine.run.rank = rank;
    const auto communicator =
        plan.stand_in ? stand_in_communicator(static_cast<int>(mine.run.rank), static_cast<int>(plan.run.world_size))
                      : process_communicator(arena, rank, plan.timeout_s);
    return run_rank(mine, {communicator.get(), &page.of(rank), at::kCPU, 1});
  };
  Outcome outcome;
  outcome.code = supervise({ranks, plan.out, 2}, page, body, outcome.message);
  std::ifstream file(plan.out);
  if (file) outcome.record = nlohmann::json::parse(file);
  return outcome;
}

}  // namespace zplan::trainer
