#include "time/optimizer.h"

#include <algorithm>


namespace zplan {
namespace {

constexpr double giga = 1e9;

double adam_bytes(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::DeepSpeedAdam:
    case OptimizerKind::TorchAdamFused: return 28;    // parameter, gradient, two moments read; three written
    case OptimizerKind::TorchAdamForeach: return 80;  // decay, lerp, square, root, division, update: a pass each
    case OptimizerKind::Adam8bit: return 16;          // moments in a byte each
  }
  return 28;
}

struct Links {
  double pcie, nvme_read, nvme_write;
};

// What each rank gets when all of its node copy at once.
Links links(const Cluster& cluster, const TimeCoefficients& c) {
  const Node& node = cluster.node;
  const double ranks = static_cast<double>(std::max<std::int64_t>(node.gpus, 1));
  const double card = node.gpu.pcie_gb_per_s * c.pcie_fraction.value;
  return {giga * std::min(card, c.host_copy_gb_per_s.value / ranks),
          giga * node.nvme_read_gb_per_s.value_or(c.nvme_read_gb_per_s.value) / ranks,
          giga * node.nvme_write_gb_per_s.value_or(c.nvme_write_gb_per_s.value) / ranks};
}

// Hosts of eight GPUs have two sockets; one of up to four, or a cloud's share of the eight, has the memory of one.
double sockets(const Node& node) { return node.gpus > 4 ? 2 : 1; }

// What DeepSpeed's step passes through the host's memory for each parameter on the CPU: gradients scaled in place
// (unscale_and_clip_grads), DeepSpeedCPUAdam, and the masters written in the model's type.
double cpu_step_bytes(const Run& run) {
  const double w = static_cast<double>(width(run.ds.precision).count);
  return 8 + 28 + (4 + w);
}

// Bytes a second: a rank's threads, or its share of the host's memory. Hosts with PCIe 5 slots have DDR5.
Coefficient cpu_bytes_per_s(const Run& run, const Cluster& cluster, const TimeCoefficients& c) {
  constexpr double pcie4_gb_per_s = 32;
  const bool ddr5 = cluster.node.gpu.pcie_gb_per_s > pcie4_gb_per_s;
  const Coefficient node = ddr5 ? c.cpu_memory_node_ddr5_gb_per_s : c.cpu_memory_node_gb_per_s;
  const double ranks = static_cast<double>(std::max<std::int64_t>(cluster.node.gpus, 1));
  const double of_threads = cpu_threads(run, cluster) * c.cpu_memory_thread_gb_per_s.value;
  const double of_node = node.value / 2 * sockets(cluster.node) / ranks;
  if (of_threads < of_node) return {giga * of_threads, c.cpu_memory_thread_gb_per_s.relative_error};
  return {giga * of_node, node.relative_error};
}

// Stages 1 and 2 write the masters into pinned memory and copy that. Stage 3 copies to parameters on the GPU across types:
// torch converts into a fresh tensor of pageable memory first (ATen/native/cuda/Copy.cu, copy_requires_temporaries).
bool copies_masters_pageable(const Run& run) {
  const auto& z = run.ds.zero;
  return z.stage == 3 && z.offload_optimizer.device != OffloadDevice::None && z.offload_param.device == OffloadDevice::None;
}

}  // namespace

OptimizerTraffic optimizer_traffic(const Run& run) {
  const double w = static_cast<double>(width(run.ds.precision).count);
  const double adam = adam_bytes(run.workload.optimizer);
  const Traffic overflow{2 * w, 0} /* amax and amin */, clip{8, 0}, to_model{4 + w, 0}, widen{0, 1}, join{0, 1};
  if (run.ds.zero.stage == 0) {
    if (run.ds.precision == Precision::Fp32) return {adam, Traffic{4, 0} + clip};
    return {adam, overflow + widen + join /* flattened */ + Traffic{4, 0} /* norm */ + clip + to_model};
  }
  // Norm in double: converted and read; slices joined, then to fp32. Stage 3 checks fp16 only.
  const bool checked = run.ds.zero.stage < 3 || run.ds.precision == Precision::Fp16;
  return {adam, (checked ? overflow : Traffic{}) + widen + Traffic{8, 0} + join + widen + clip + to_model};
}

double cpu_threads(const Run& run, const Cluster& cluster) {
  if (run.cpu_threads) return static_cast<double>(*run.cpu_threads);
  const auto ranks = std::max<std::int64_t>(cluster.node.gpus, 1);
  if (cluster.node.cpu_cores > 0) return std::max(1.0, static_cast<double>(cluster.node.cpu_cores / ranks));
  return 8;
}

double cpu_step_error(const Run& run, const Cluster& cluster, const TimeCoefficients& c) {
  return cpu_bytes_per_s(run, cluster, c).relative_error;
}

double copies_error(const Run& run, const TimeCoefficients& c) {
  return (copies_masters_pageable(run) ? c.pageable_copy_gb_per_s : c.host_copy_gb_per_s).relative_error;
}

OptimizerSeconds optimizer_seconds(const Run& run, const Cluster& cluster, const ModelShape& shape,
                                   const MicroStepGathers& gathers, const GpuRates& rates, const TimeCoefficients& c) {
  const auto& z = run.ds.zero;
  const double w = static_cast<double>(width(run.ds.precision).count);
  const double accumulated = static_cast<double>(width(run.ds.accumulation_dtype()).count);
  const double parts = z.stage >= 1 ? static_cast<double>(run.world_size) : 1;
  const double owned = static_cast<double>(shape.trainable) / parts;
  const Links link = links(cluster, c);
  const bool accumulates = run.ds.gradient_accumulation_steps > 1;

  OptimizerSeconds t;
  if (run.workload.recompute.any() && run.workload.recompute.offload) {  // boundaries wait in host memory
    const double boundaries = static_cast<double>(ceil_div(run.model.layers, run.workload.recompute.every));
    t.forward_copies = t.backward_copies =
        boundaries * w * static_cast<double>(run.tokens() * run.model.hidden) / link.pcie;
  }
  const bool offloaded = z.stage >= 1 && z.offload_optimizer.device != OffloadDevice::None;
  // Twin-flow keeps a share of the sub-groups on the GPU; only stage 3 reads the ratio.
  const double on_cpu = offloaded ? owned * (z.stage == 3 ? z.offload_optimizer.ratio : 1.0) : 0;
  const OptimizerTraffic step = optimizer_traffic(run);
  t.gpu = (owned - on_cpu) * (step.adam_bytes / rates.fused_adam_bytes_per_s + rates.seconds(step.around));
  if (on_cpu > 0) {
    t.cpu = on_cpu * cpu_step_bytes(run) / cpu_bytes_per_s(run, cluster, c).value;
    const double up = copies_masters_pageable(run) ? giga * c.pageable_copy_gb_per_s.value : link.pcie;
    if (z.offload_param.device == OffloadDevice::None) t.copy_up = w * on_cpu / up;
    t.boundary_copies = 4 * on_cpu / link.pcie;
    // Stage 3 brings its accumulator up and down in every micro-step; stage 2 only when it accumulates.
    if (z.stage == 3) t.backward_copies += 2 * accumulated * on_cpu / link.pcie;
    if (z.stage == 2 && accumulates) t.backward_copies += 2 * w * on_cpu / link.pcie;
    if (z.stage == 3 && z.offload_optimizer.device == OffloadDevice::Nvme) {
      const double read = 16 * on_cpu / link.nvme_read, write = 12 * on_cpu / link.nvme_write;
      const bool both = z.offload_optimizer.pipeline_read && z.offload_optimizer.pipeline_write;
      t.nvme = both ? std::max(read, write) : read + write;
      t.boundary_copies += 4 * on_cpu / link.nvme_write;  // the gradient swapper, during backward
    }
  }
  if (z.stage == 3 && z.offload_param.device != OffloadDevice::None) {
    const double partition = w * static_cast<double>(shape.elements) / parts;
    const double again = gathers.forward.elements > 0 ? gathers.backward.elements / gathers.forward.elements : 0;
    t.forward_copies += partition / link.pcie;
    t.backward_copies += again * partition / link.pcie;
    if (z.offload_param.device == OffloadDevice::Nvme) {
      const double kept = std::min(1.0, static_cast<double>(z.offload_param.max_in_cpu) * w / partition);
      t.forward_nvme = (1 - kept) * partition / link.nvme_read;
      t.backward_nvme = again * (1 - kept) * partition / link.nvme_read;
      t.nvme += (1 - kept) * partition / link.nvme_write;
    }
  }
  return t;
}

}  // namespace zplan
