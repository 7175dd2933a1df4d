#include "plan/determined_by.h"

#include <array>
#include <string_view>

namespace zplan {
namespace {

struct Hint {
  std::string_view coefficient, run;
};

// What a coefficient must decide for its value to show.
constexpr auto hints = std::to_array<Hint>({
    {"matmul_fraction", "several stage-2 runs, micro-batch 4 or more"},
    {"gpu_speed", "several stage-2 runs, micro-batch 4 or more"},
    {"matmul_attainable", "a GPU whose best product is not known: a stage-2 run, micro-batch 4 or more"},
    {"matmul_emulated_bf16", "a bf16 run on a GPU before Ampere"},
    {"matmul_launch", "a stage-0 run of a model below 1B, 512 tokens"},
    {"memory_fraction", "measure_rates.py, or two stage-2 runs, micro-batch 4 or more: with Liger's kernels and without"},
    {"indexed_per_clock", "measure_rates.py, or two stage-2 runs, micro-batch 4 or more: with Liger's kernels and without"},
    {"fused_adam_fraction", "a stage-2 run with few ranks: its optimizer step"},
    {"kernel_gap", "two stage-2 runs of a model below 1B, 512 and 4,096 tokens a micro-step"},
    {"attention_flash2", "a run with sequences of 16,384 tokens or more on Ampere or Ada"},
    {"attention_flash2_per_sm", "a run with --attention flash and sequences of 16,384 tokens or more on Hopper"},
    {"attention_cudnn", "a run with --attention sdpa and sequences of 16,384 tokens or more on Hopper"},
    {"attention_memory_efficient", "an fp32 run with sequences of 16,384 tokens or more"},
    {"attention_half_length", "two runs of the same tokens a micro-step, 512 and 8,192 a sequence"},
    {"attention_backward", "a run with sequences of 16,384 tokens or more, phase by phase"},
    {"host_operator", "a stage-0 or stage-1 run of a model below 1B, 512 tokens"},
    {"host_gradient_hook", "two runs of a model below 1B, stage 0 and stage 2"},
    {"host_zero3_module", "a stage-3 run with LoRA beside one without, micro-batch 1"},
    {"host_zero3_module_backward", "two stage-3 runs, micro-batch 1: with recomputation and without"},
    {"host_zero3_gather", "a stage-3 run without offload beside one on a single rank, micro-batch 1"},
    {"host_zero3_copy_out", "two stage-3 runs, micro-batch 1, with stage3_allgather_sequential on and off"},
    {"host_zero3_gradient", "two stage-3 runs, micro-batch 1: full and with frozen layers"},
    {"host_zero3_bucket", "two stage-3 runs, micro-batch 1: reduce_bucket_size 5e8 and 1e7"},
    {"host_step_tensor", "a run of a model below 1B with 4 ranks or more: its optimizer step"},
    {"nvlink_fraction", "measure_rates.py on 2 or more GPUs with NVLink"},
    {"nvlink_small_group_loss", "measure_rates.py on 2 and on 8 GPUs with NVLink"},
    {"nvls_gain", "measure_rates.py on 8 GPUs with NVSwitch, Hopper or later"},
    {"pcie_ring_fraction", "measure_rates.py on 2 or more GPUs without NVLink"},
    {"network_fraction", "a stage-0 run over 2 or more nodes whose network is told"},
    {"network_default", "a stage-0 run over 2 or more nodes"},
    {"collective_latency", "measure_rates.py on 2 or more GPUs"},
    {"nvlink_hop", "measure_rates.py on 8 GPUs with NVLink"},
    {"pcie_hop", "measure_rates.py on 8 GPUs without NVLink"},
    {"network_hop", "a stage-3 run over 4 or more nodes"},
    {"overlap_loss", "two stage-2 runs, micro-batch 1, overlap_comm on and off"},
    {"pcie", "measure_rates.py, or a stage-2 run with the optimizer on the CPU"},
    {"host_copy", "measure_rates.py on all GPUs of a node at once"},
    {"cpu_memory_thread", "a stage-2 run with the optimizer on the CPU, 4 threads a rank"},
    {"cpu_memory_node", "a stage-2 run with the optimizer on the CPU, all cores, on a DDR4 host"},
    {"cpu_memory_node_ddr5", "a stage-2 run with the optimizer on the CPU, all cores of all ranks, on a DDR5 host"},
    {"pageable_copy", "two stage-3 runs with the optimizer on the CPU: with the parameters there and without"},
    {"nvme_read", "a stage-3 run with the optimizer on NVMe"},
    {"nvme_write", "a stage-3 run with the optimizer on NVMe"},
    {"unexplained", "6 timed runs or more"},
});

}  // namespace

std::string determined_by(const std::string& coefficient) {
  for (const Hint& h : hints) {
    if (h.coefficient == coefficient) return std::string(h.run);
  }
  return "";
}

}  // namespace zplan
