#include "tests/time/machines.h"

#include "tests/io/catalog.h"

namespace zplan::testing {
Model model(const std::string& name) { return find_model(catalog(), name, "test").model; }

Gpu gpu(const std::string& id) { return find_gpu(catalog(), id, "test").gpu; }

Cluster cluster(const std::string& gpu_id, std::int64_t per_node, std::int64_t nodes, double network_gb_per_s) {
  Cluster c;
  c.node.gpu = gpu(gpu_id);
  c.node.gpus = per_node;
  c.node.interconnect = c.node.gpu.nvlink_gb_per_s ? Interconnect::NvLink : Interconnect::Pcie;
  c.node.network_gb_per_s = network_gb_per_s;
  c.nodes = nodes;
  return c;
}

Run run(const std::string& model_name, const Cluster& cluster, int stage, std::int64_t micro_batch,
        std::int64_t accumulation) {
  Run r;
  r.model = model(model_name);
  r.gpu = cluster.node.gpu;
  r.world_size = cluster.world_size();
  r.ds.zero.stage = stage;
  r.ds.zero.overlap_comm = stage == 3;
  r.ds.train_micro_batch_size_per_gpu = micro_batch;
  r.ds.gradient_accumulation_steps = accumulation;
  r.workload.recompute.every = 1;
  return r;
}

}  // namespace zplan::testing
