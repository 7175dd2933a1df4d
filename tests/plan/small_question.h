// A question whose whole space can be tried: a small model on four small GPUs.
#pragma once

#include "plan/search.h"

namespace zplan::testing {

// `for_torch`: what the GPU offers to torch's allocator.
inline Question small_question(Bytes for_torch) {
  Question q;
  auto& m = q.base.model;
  m.name = "small";
  m.model_type = "qwen3";
  m.hidden = 512, m.intermediate = 1536, m.layers = 4, m.heads = 8, m.kv_heads = 4, m.head_dim = 64;
  m.vocab = 32'000, m.tied_embeddings = true, m.qk_norm = true;
  auto& g = q.base.gpu;
  g.id = g.name = "small GPU";
  g.context = MiB(100);
  g.cublas_workspace = Bytes{8'519'680};
  g.compute_capability = "8.0";
  g.bf16 = true;
  g.sm_count = 108;
  g.memory_gb_per_s = 1555, g.bf16_tflops = 312, g.fp16_tflops = 312, g.fp32_tflops = 19.5;
  g.nvlink_gb_per_s = 300, g.pcie_gb_per_s = 32;
  q.base.world_size = 4;
  g.memory_total = for_torch + outside_allocator(q.base).total();
  q.cluster.node.gpu = g;
  q.cluster.node.gpus = 4;
  q.cluster.node.interconnect = Interconnect::NvLink;
  q.cluster.node.cpu_cores = 32;
  q.base.workload.seq_len = 512;
  q.base.steps = 3;
  q.global_batch = 16;
  q.axes = default_axes(q.base, q.cluster, q.global_batch);
  q.axes.stages = {3};
  q.axes.offloads = {Offload::None, Offload::Optimizer};
  q.axes.recompute = {0, 1};
  q.axes.reduce_buckets = {100'000'000, 8'000'000};
  q.axes.sub_groups = {1'000'000'000, 2'000'000};
  q.axes.max_live = {1'000'000'000, 5'000'000};
  q.axes.max_reuse = {1'000'000'000};
  q.axes.prefetch = {50'000'000};
  q.axes.persistence = {100'000};
  q.axes.sequential = {false};
  q.axes.overlap_comm = {Overlap::Default};
  return q;
}

}  // namespace zplan::testing
