// GPUs, the nodes they sit in and the set a job runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "units/units.h"

namespace zplan {

// How many channels NCCL opens between GPUs of this kind in one node.
struct NcclChannels {
  std::int64_t collective = 0, point_to_point = 0;
  friend bool operator==(const NcclChannels&, const NcclChannels&) = default;
};

struct Gpu {
  std::string id;                    // "a100-sxm4-40gb"
  std::string name;                  // "A100-SXM4-40GB"
  std::vector<std::string> aliases;  // "A100-40G"
  Bytes memory_total;                // what torch reports as total capacity
  Bytes cublas_workspace;            // per handle and stream; torch's default for this compute capability
  std::string compute_capability;    // "8.0"
  bool bf16 = false;                 // bf16 tensor cores
  std::int64_t sm_count = 0;
  double memory_gb_per_s = 0;        // device memory bandwidth
  double bf16_tflops = 0;            // dense, 0 = not supported
  double fp16_tflops = 0;
  double fp32_tflops = 0;
  std::optional<double> measured_bf16_matmul_tflops;  // best square matmul seen
  std::optional<double> measured_bf16_training_matmul_tflops;  // the products of a transformer's training step
  std::optional<double> nvlink_gb_per_s;  // per direction, all links; absent = no NVLink
  double pcie_gb_per_s = 0;          // per direction, raw
  std::optional<Bytes> context;      // CUDA context of a torch process, where measured
  std::optional<NcclChannels> nccl_channels;  // where measured
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

enum class Interconnect { NvLink, Pcie };  // between the GPUs of one node

// One machine: its GPUs, host memory, disks and network.
struct Node {
  std::string id;
  Gpu gpu;
  std::int64_t gpus = 0;
  Interconnect interconnect = Interconnect::Pcie;
  std::optional<Bytes> host_memory;      // RAM; absent = not known, not checked
  std::optional<Bytes> nvme;             // local NVMe capacity
  std::optional<double> nvme_read_gb_per_s, nvme_write_gb_per_s;
  std::int64_t cpu_cores = 0;            // 0 = not known
  double network_gb_per_s = 0;           // per node and direction, all NICs; 0 = not known
  friend bool operator==(const Node&, const Node&) = default;
};

struct Cluster {
  std::string asked;         // what the user wrote: "2x8xH100-80G"
  Node node;
  std::int64_t nodes = 1;
  std::int64_t world_size() const { return nodes * node.gpus; }
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

}  // namespace zplan
