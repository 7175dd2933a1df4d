#include "time/coefficients.h"

#include <array>

namespace zplan {
namespace {

using C = TimeCoefficients;

constexpr std::string_view step_time_records =
    "measured: DeepSpeed 0.19.6 on H200, stage 3, 2 and 4 ranks (docs/time-model.md#host)";

constexpr auto table = std::to_array<CoefficientEntry>({
    {"gpu_speed", "times the rates of kernels", &C::gpu_speed,
     "one by definition: cards of one kind differ in clock and power (stas00/ml-engineering: 5 % between the GPUs of a node; "
     "the forward of Qwen3-8B, 4,096 tokens, on H200: 0.128 s on one machine, 0.142 s on two others)"},
    {"matmul_fraction", "of the best square product", &C::matmul_fraction,
     "MooreThreads/SimuMax a100_pcie.json: median 0.72 of peak over 183 LLM shapes, best square 0.81; for GPUs whose products "
     "of training are not measured (H200: 0.99)"},
    {"matmul_attainable", "of peak", &C::matmul_attainable,
     "stas00/ml-engineering, MAMF: A100 0.87, H100 0.80, B200 0.78; for GPUs without a measured product"},
    {"matmul_emulated_bf16", "of fp32 peak", &C::matmul_emulated_bf16,
     "zzc0721/torch-performance-test-data: V100 bf16 10.65 of 15.7 TFLOPS"},
    {"matmul_launch", "s", &C::matmul_launch_s,
     "H200: with it all products of 0.6B and 1.7B, 2,048 to 16,384 tokens, are within 5 % (validate/results/kernels-h200.json)"},
    {"memory_fraction", "of peak bandwidth", &C::memory_fraction,
     "MooreThreads/SimuMax: 0.91 on A100, 0.67 on B200; H200 0.88 for large tensors (validate/results/rates-h200.json), 0.73 by "
     "least squares in training (kernels-h200.json)"},
    {"indexed_per_clock", "elements an SM and clock", &C::indexed_per_clock,
     "measured: 340e9 elements/s on H200 beside that bandwidth, 368e9 by least squares of both; eleven phases of 0.6B and 1.7B "
     "(validate/results/kernels-h200.json, printed by zplan_tests)"},
    {"fused_adam_fraction", "of peak bandwidth", &C::fused_adam_fraction,
     "measured: torch's fused AdamW on H200, 28 bytes an element at 3,300 to 3,340 of 4,800 GB/s "
     "(validate/results/rates-h200.json)"},
    {"kernel_gap", "s", &C::kernel_gap_s,
     "measured: a micro-step's wall less its kernels, by kernel, on H200: 1.0 to 1.4 us (validate/results/kernels-h200.json)"},
    {"attention_flash2", "of peak", &C::attention_flash2,
     "Dao-AILab/flash-attention: A100, causal, head 128, 16k tokens, 189 of 312 TFLOPS"},
    {"attention_flash2_per_sm", "TFLOPS an SM", &C::attention_flash2_tflops_per_sm,
     "Dao-AILab/flash-attention: FA2 forward on H100, 335 TFLOPS on 132 SMs; it uses Ampere's instructions"},
    {"attention_cudnn", "of peak", &C::attention_cudnn,
     "measured: H200, causal, 8,192 and 32,768 tokens, 569 to 593 of 989 TFLOPS on two machines (validate/results/rates-h200.json, "
     "rates-h200-32-cores.json); Dao-AILab/flash-attention: cuDNN forward on H100, 539"},
    {"attention_memory_efficient", "of peak", &C::attention_memory_efficient, "assumed for GPUs before Ampere and fp32"},
    {"attention_half_length", "tokens", &C::attention_half_length,
     "Dao-AILab/flash-attention: fit of 99 to 189 TFLOPS from 512 to 16k tokens on A100"},
    {"attention_backward", "of the forward rate", &C::attention_backward,
     "cuDNN on H200 0.79 at 8,192 tokens, 0.91 at 32,768 (validate/results/rates-h200.json); Dao-AILab/flash-attention: FA2 on H100 at "
     "8k, 333 forward and 308 both TFLOPS"},
    {"host_operator", "s", &C::host_operator_s,
     "stas00/ml-engineering: Llama-3.2-1B eager, 512 tokens, 48.8 ms a step over 16 layers of 160 operators"},
    {"host_gradient_hook", "s", &C::host_gradient_hook_s, "assumed: three Python calls a gradient"},
    {"host_zero3_module", "s", &C::host_zero3_module_s, step_time_records},
    {"host_zero3_module_backward", "s", &C::host_zero3_module_backward_s, step_time_records},
    {"host_zero3_gather", "s", &C::host_zero3_gather_s, step_time_records},
    {"host_zero3_copy_out", "s", &C::host_zero3_copy_out_s, step_time_records},
    {"host_zero3_gradient", "s", &C::host_zero3_gradient_s, step_time_records},
    {"host_zero3_bucket", "s", &C::host_zero3_bucket_s, step_time_records},
    {"host_step_tensor", "s", &C::host_step_tensor_s,
     "measured: DeepSpeed 0.19.6 on H200, steps of 0.6B models (docs/time-model.md#optimizer)"},
    {"nvlink_fraction", "of the links' rate", &C::nvlink_fraction,
     "VIA-Research/vTrain and stas00/ml-engineering: 8 x A100 235 of 300, 8 x H200 361 of 450 GB/s"},
    {"nvlink_small_group_loss", "of a rank's share", &C::nvlink_small_group_loss,
     "VIA-Research/vTrain: A100 all-reduce 197, 222, 229 GB/s at 2, 4, 8 GPUs"},
    {"nvls_gain", "times", &C::nvls_gain, "NVIDIA nccl-tests: 8 x H200 all-reduce 481 against 367 GB/s, 1.14 to 1.29"},
    {"pcie_ring_fraction", "of the link's rate", &C::pcie_ring_fraction,
     "MooreThreads/SimuMax: A100 PCIe 0.66 at 2 and 4, 0.40 at 8; 5090 0.55 and 0.44; RTX PRO 6000 0.73"},
    {"network_fraction", "of line rate", &C::network_fraction, "stas00/ml-engineering: 32 x H200 365 of 400 GB/s"},
    {"network_default", "GB/s a GPU", &C::network_default_gb_per_s_per_gpu,
     "one 200 Gb/s card a GPU, as DGX A100; for nodes whose network is not told"},
    {"collective_latency", "s", &C::collective_latency_s,
     "measured: two H200, all-reduce to reduce-scatter of 8 KiB to 2 MiB, 24 to 32 us"},
    {"nvlink_hop", "s", &C::nvlink_hop_s, "NVIDIA/nccl v2.30 src/graph/tuning.cc: ring, Simple, NVLink"},
    {"pcie_hop", "s", &C::pcie_hop_s, "NVIDIA/nccl v2.30 src/graph/tuning.cc: ring, Simple, PCIe"},
    {"network_hop", "s", &C::network_hop_s, "NVIDIA/nccl v2.30 src/graph/tuning.cc: Simple, network"},
    {"overlap_loss", "of the hidden part", &C::overlap_loss,
     "0.35 to 0.39 between two H200, buckets of 512 MiB beside products (docs/validation.md#nccl-between-two-h200); 0.14 to 1.0 "
     "on published FSDP rows; PKU-DAIR/Hetu-Galvatron: compute 1.126 times slower beside a collective"},
    {"pcie", "of the link's rate", &C::pcie_fraction, "NVIDIA/nvbandwidth: H200 55.4 of 63, A100 26 of 31.5 GB/s"},
    {"host_copy", "GB/s a node", &C::host_copy_gb_per_s,
     "voipmonitor/rtx6kpro: 8 GPUs at once, 114 GB/s a socket; two sockets"},
    {"cpu_memory_thread", "GB/s a thread", &C::cpu_memory_thread_gb_per_s,
     "measured: the step's passes on an H200 host, 22 with one thread, 16 with 4, 13 with 8 (validate/results/cpu-optimizer-2xh200.json)"},
    {"cpu_memory_node", "GB/s a node", &C::cpu_memory_node_gb_per_s,
     "two sockets of DDR4: DeepSpeed PR #735 1.41e9, ZenFlow blog (A100 node) 1.46e9, DGX-2 tutorial 1.6e9 parameters/s, at 42 "
     "bytes"},
    {"cpu_memory_node_ddr5", "GB/s a node", &C::cpu_memory_node_ddr5_gb_per_s,
     "two sockets of DDR5: stas00/ml-engineering: 8 x H200 and 8 x B200 hosts, 8.03e9 parameters in 2.1 s: 200; 160 for a host "
     "with half of the cores (validate/results/cpu-optimizer-2xh200.json)"},
    {"pageable_copy", "GB/s a rank", &C::pageable_copy_gb_per_s,
     "measured: fp32 in pageable memory to 16 bits on the GPU, less the conversion, 4.7 with 4 threads, 6.2 with 16 "
     "(validate/results/cpu-optimizer-2xh200.json)"},
    {"nvme_read", "GB/s a node", &C::nvme_read_gb_per_s, "deepspeedai/DeepSpeed blogs/deepnvme: 4 x PCIe 4, 7 to 10"},
    {"nvme_write", "GB/s a node", &C::nvme_write_gb_per_s, "deepspeedai/DeepSpeed blogs/deepnvme: 4 x PCIe 4, 4 to 5"},
    {"unexplained", "of the step", &C::unexplained_share,
     "published repeats: 5 % between GPUs of a node, 9 to 14 % between runs on shared clusters"},
});

}  // namespace

std::span<const CoefficientEntry> coefficient_table() { return table; }

}  // namespace zplan
