// What physics leaves open in the time model: fractions of what the hardware data states, host costs, latencies.
// One set serves every model and GPU; calibration replaces values by name and keeps the rest (docs/time-model.md#coefficients).
#pragma once

#include <span>
#include <string_view>

namespace zplan {

// A value, and how far off it may be on a machine that nobody has measured: standard error over value.
struct Coefficient {
  double value = 0;
  double relative_error = 0;
  friend bool operator==(const Coefficient&, const Coefficient&) = default;
};

// The default-constructed value is the uncalibrated prior; `coefficient_table` names the source of each.
struct TimeCoefficients {
  // GPU kernels
  Coefficient gpu_speed{1.0, 0.06};
  Coefficient matmul_fraction{0.88, 0.06};
  Coefficient matmul_attainable{0.80, 0.12};
  Coefficient matmul_emulated_bf16{0.65, 0.30};
  Coefficient matmul_launch_s{4e-6, 0.50};
  Coefficient memory_fraction{0.80, 0.12};
  Coefficient indexed_per_clock{1.31, 0.15};
  Coefficient fused_adam_fraction{0.70, 0.15};
  Coefficient kernel_gap_s{1.4e-6, 0.50};
  Coefficient attention_flash2{0.60, 0.10};
  Coefficient attention_flash2_tflops_per_sm{2.54, 0.12};
  Coefficient attention_cudnn{0.58, 0.10};
  Coefficient attention_memory_efficient{0.25, 0.50};
  Coefficient attention_half_length{500, 0.20};
  Coefficient attention_backward{0.85, 0.12};
  // The Python process of a rank
  Coefficient host_operator_s{21e-6, 0.35};
  Coefficient host_gradient_hook_s{70e-6, 0.40};
  Coefficient host_zero3_module_s{0.46e-3, 0.35};
  Coefficient host_zero3_module_backward_s{0.27e-3, 0.40};
  Coefficient host_zero3_gather_s{0.30e-3, 0.40};
  Coefficient host_zero3_copy_out_s{0.30e-3, 0.60};
  Coefficient host_zero3_gradient_s{0.25e-3, 0.50};
  Coefficient host_zero3_bucket_s{1.0e-3, 0.50};
  Coefficient host_step_tensor_s{85e-6, 0.30};
  // Collectives
  Coefficient nvlink_fraction{0.84, 0.10};
  Coefficient nvlink_small_group_loss{0.52, 0.25};
  Coefficient nvls_gain{1.25, 0.08};
  Coefficient pcie_ring_fraction{0.55, 0.35};
  Coefficient network_fraction{0.92, 0.20};
  Coefficient network_default_gb_per_s_per_gpu{25, 1.0};
  Coefficient collective_latency_s{25e-6, 0.40};
  Coefficient nvlink_hop_s{3.4e-6, 0.50};
  Coefficient pcie_hop_s{5.7e-6, 0.50};
  Coefficient network_hop_s{14e-6, 0.50};
  Coefficient overlap_loss{0.40, 0.60};
  // Offload
  Coefficient pcie_fraction{0.85, 0.10};
  Coefficient host_copy_gb_per_s{228, 0.60};
  Coefficient cpu_memory_thread_gb_per_s{15, 0.40};
  Coefficient cpu_memory_node_gb_per_s{63, 0.40};
  Coefficient cpu_memory_node_ddr5_gb_per_s{225, 0.25};
  Coefficient pageable_copy_gb_per_s{5.2, 0.35};
  Coefficient nvme_read_gb_per_s{7, 0.50};
  Coefficient nvme_write_gb_per_s{4, 0.50};
  // What a calibration leaves unexplained; no part of the step, only of its uncertainty.
  Coefficient unexplained_share{0.08, 0.50};
  friend bool operator==(const TimeCoefficients&, const TimeCoefficients&) = default;
};

// One row a member: the name that profiles and reports use, the unit, and where the prior comes from.
struct CoefficientEntry {
  std::string_view name;
  std::string_view unit;
  Coefficient TimeCoefficients::*member;
  std::string_view source;
};
std::span<const CoefficientEntry> coefficient_table();

}  // namespace zplan
