#include "tests/time/machines.h"

#include <map>

namespace zplan::testing {
namespace {

struct Sheet {
  const char* capability;
  double gb_per_s, bf16_tflops, fp16_tflops, fp32_tflops, measured_tflops, nvlink_gb_per_s, pcie_gb_per_s;
  std::int64_t sms;
};

// Data sheets; measured: torch.matmul on squares (zzc0721/torch-performance-test-data).
const std::map<std::string, Sheet> sheets = {
    {"v100-sxm2-32gb", {"7.0", 900, 0, 125, 15.7, 0, 150, 16, 80}},
    {"a100-sxm4-40gb", {"8.0", 1555, 312, 312, 19.5, 246.3, 300, 32, 108}},
    {"a100-sxm4-80gb", {"8.0", 2039, 312, 312, 19.5, 264.5, 300, 32, 108}},
    {"h100-sxm5-80gb", {"9.0", 3350, 989, 989, 67, 790, 450, 64, 132}},
    {"h200-sxm-141gb", {"9.0", 4800, 989, 989, 67, 790.3, 450, 64, 132}},
    {"b200-sxm-180gb", {"10.0", 8000, 2250, 2250, 80, 1696, 900, 64, 148}},
    {"rtx-a6000", {"8.6", 768, 154.8, 154.8, 38.7, 123.3, 0, 32, 84}},
    {"rtx-4090", {"8.9", 1008, 165.2, 165.2, 82.6, 165, 0, 32, 128}},
};

}  // namespace

Gpu gpu(const std::string& id) {
  const Sheet& s = sheets.at(id);
  Gpu g;
  g.id = g.name = id;
  g.compute_capability = s.capability;
  g.bf16 = s.bf16_tflops > 0;
  g.sm_count = s.sms;
  g.memory_gb_per_s = s.gb_per_s;
  g.bf16_tflops = s.bf16_tflops;
  g.fp16_tflops = s.fp16_tflops;
  g.fp32_tflops = s.fp32_tflops;
  if (s.measured_tflops > 0) g.measured_bf16_matmul_tflops = s.measured_tflops;
  if (s.nvlink_gb_per_s > 0) g.nvlink_gb_per_s = s.nvlink_gb_per_s;
  g.pcie_gb_per_s = s.pcie_gb_per_s;
  return g;
}

Cluster cluster(const std::string& gpu_id, std::int64_t per_node, std::int64_t nodes, double network_gb_per_s) {
  Cluster c;
  c.node.gpu = gpu(gpu_id);
  c.node.gpus = per_node;
  c.node.interconnect = c.node.gpu.nvlink_gb_per_s ? Interconnect::NvLink : Interconnect::Pcie;
  c.node.network_gb_per_s = network_gb_per_s;
  c.nodes = nodes;
  return c;
}

}  // namespace zplan::testing
