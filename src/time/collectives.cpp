#include "time/collectives.h"

#include <algorithm>
#include <cmath>

#include "time/rates.h"

namespace zplan {
namespace {

constexpr double giga = 1e9;

// Inside a node. Few GPUs use fewer of the switch's channels: 0.62 of the links' rate at two, 0.78 at eight.
double local_bytes_per_s(const Node& node, double ranks, const TimeCoefficients& c) {
  if (node.interconnect == Interconnect::NvLink && node.gpu.nvlink_gb_per_s) {
    return *node.gpu.nvlink_gb_per_s * giga * c.nvlink_fraction.value *
           (1 - c.nvlink_small_group_loss.value / std::max(ranks, 2.0));
  }
  return node.gpu.pcie_gb_per_s * giga * c.pcie_ring_fraction.value;
}

}  // namespace

Fabric fabric(const Cluster& cluster, std::int64_t ranks, const TimeCoefficients& c) {
  const Node& node = cluster.node;
  const auto per_node = std::max<std::int64_t>(1, std::min(ranks, node.gpus));
  Fabric f;
  f.ranks = static_cast<double>(ranks);
  f.nodes = static_cast<double>(ceil_div(ranks, per_node));
  f.latency_s = c.collective_latency_s.value;
  f.network_hop_s = c.network_hop_s.value;
  const bool nvlink = node.interconnect == Interconnect::NvLink && node.gpu.nvlink_gb_per_s.has_value();
  f.local_hop_s = nvlink ? c.nvlink_hop_s.value : c.pcie_hop_s.value;
  const double local = local_bytes_per_s(node, static_cast<double>(per_node), c);
  f.bytes_per_s = local;
  if (f.nodes > 1) {
    // Every byte of the ring leaves each node once: all of a node's network cards carry it together.
    const double network = node.network_gb_per_s > 0
                               ? node.network_gb_per_s * c.network_fraction.value
                               : c.network_default_gb_per_s_per_gpu.value * static_cast<double>(node.gpus);
    const double across = network * giga;
    f.bytes_per_s = per_node > 1 ? std::min(local, across) : across;
  } else if (nvlink && per_node > 4 && compute_capability_major(node.gpu) >= 9) {
    f.reduce_gain = c.nvls_gain.value;
  }
  return f;
}

double collective_seconds(const Fabric& f, Collective kind, double bytes, double calls) {
  if (f.ranks <= 1 || calls <= 0) return 0;
  const bool reduce_all = kind == Collective::AllReduce;
  const double rounds = reduce_all ? 2 : 1;
  const double local_hops = f.ranks - f.nodes, network_hops = f.nodes - 1;
  double hops = rounds * (local_hops * f.local_hop_s + network_hops * f.network_hop_s);
  if (reduce_all && f.nodes > 1) {  // NCCL takes the tree where its latency is less; gather and scatter know rings only
    const double tree = 2 * ((f.ranks / f.nodes - 1) * f.local_hop_s + std::log2(f.nodes) * f.network_hop_s);
    hops = std::min(hops, tree);
  }
  const double share = (f.ranks - 1) / f.ranks;
  const double rate = f.bytes_per_s * (reduce_all ? f.reduce_gain : 1);
  return calls * (f.latency_s + hops) + rounds * bytes * share / rate;
}

}  // namespace zplan
