// Seconds of one NCCL collective: latency and bytes over bandwidth, inside a node and across any number of nodes.
// docs/time-model.md#collectives
#pragma once

#include <cstdint>

#include "spec/hardware.h"
#include "time/coefficients.h"

namespace zplan {

enum class Collective { AllReduce, AllGather, ReduceScatter };

// The links that a group of ranks shares.
struct Fabric {
  double ranks = 1, nodes = 1;
  double bytes_per_s = 0;       // bus bandwidth of the ring: the slowest link it crosses
  double reduce_gain = 1;       // all-reduce done by the switches (NVLS)
  double latency_s = 0, local_hop_s = 0, network_hop_s = 0;
};

// `ranks` of the cluster, filling one node after the other.
Fabric fabric(const Cluster& cluster, std::int64_t ranks, const TimeCoefficients& c);

// `bytes` of the full buffer moved by `calls` equal collectives.
double collective_seconds(const Fabric& fabric, Collective kind, double bytes, double calls);

}  // namespace zplan
