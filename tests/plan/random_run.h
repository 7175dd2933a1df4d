// Random valid runs of small models, for properties that hold whatever the input. Same seed, same runs, everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "spec/run.h"

namespace zplan::testing {

class RandomRun {
 public:
  explicit RandomRun(std::uint32_t seed) : random_(seed) {}

  Run next(std::initializer_list<int> stages) {
    Run run;
    run.model = model();
    run.gpu.sm_count = pick({80, 108, 132});
    run.gpu.cublas_workspace = Bytes{pick({8'519'680, 33'554'432})};
    run.gpu.memory_total = GiB(40);
    run.world_size = pick({1, 2, 3, 4, 8});
    run.steps = 2;
    auto& ds = run.ds;
    ds.zero.stage = static_cast<int>(pick(stages));
    ds.precision = coin() ? Precision::Bf16 : Precision::Fp16;
    ds.train_micro_batch_size_per_gpu = pick({1, 2, 3});
    ds.gradient_accumulation_steps = pick({1, 1, 2});
    ds.zero.reduce_bucket_size = pick({10'000, 300'000, 4'000'000});
    ds.zero.overlap_comm = coin();
    if (ds.zero.stage >= 1 && pick({0, 0, 1}) != 0) ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
    if (ds.zero.stage == 3) {
      if (ds.zero.offload_optimizer.device == OffloadDevice::Cpu && coin()) ds.zero.offload_param.device = OffloadDevice::Cpu;
      ds.zero.sub_group_size = pick({20'000, 500'000, 1'000'000'000});
      ds.zero.stage3_prefetch_bucket_size = pick({0, 50'000, 50'000'000});
      ds.zero.stage3_max_live_parameters = pick({0, 500'000, 1'000'000'000});
      ds.zero.stage3_max_reuse_distance = pick({0, 500'000, 1'000'000'000});
      ds.zero.stage3_param_persistence_threshold = pick({0, 1'000, 100'000});
      ds.zero.stage3_allgather_sequential = pick({0, 0, 0, 1}) != 0;
    }
    auto& w = run.workload;
    w.seq_len = pick({64, 128, 320});
    w.recompute.every = pick({0, 1, 1, 2});
    w.attention = pick({0, 0, 1}) ? Attention::Eager : Attention::Sdpa;
    w.kernels.fused_linear_cross_entropy = pick({0, 0, 1}) != 0;
    w.kernels.rms_norm = pick({0, 0, 1}) != 0;
    w.kernels.rope = pick({0, 0, 1}) != 0;
    w.kernels.swiglu = pick({0, 0, 1}) != 0;
    if (pick({0, 0, 0, 1}) != 0) {
      w.finetune = coin() ? Finetune::Lora : Finetune::Qlora;
      w.lora_rank = pick({8, 16});
      w.attention = Attention::Sdpa;
      w.lora_dropout = static_cast<double>(pick({0, 0, 1})) * 0.05;
      w.adapter_autocast = w.zero_init = w.finetune == Finetune::Lora;
    }
    if (coin()) run.alloc_conf = "expandable_segments:True";
    return run;
  }

  std::int64_t pick(std::initializer_list<std::int64_t> values) {
    return values.begin()[random_() % values.size()];
  }
  std::int64_t pick(std::initializer_list<int> values) { return values.begin()[random_() % values.size()]; }
  bool coin() { return random_() % 2 == 0; }

 private:
  Model model() {
    Model m;
    m.name = "random";
    m.model_type = "qwen3";
    m.hidden = pick({256, 512, 768});
    m.intermediate = pick({512, 1536, 2048});
    m.layers = pick({1, 2, 3, 5});
    m.heads = pick({4, 8});
    m.kv_heads = pick({2, 4});
    m.head_dim = pick({64, 128});
    m.vocab = pick({1'000, 5'003, 32'000});
    m.tied_embeddings = coin();
    m.qk_norm = true;
    return m;
  }

  std::mt19937 random_;
};

// What tells runs apart when a property fails.
inline std::string describe(const Run& r) {
  const auto& z = r.ds.zero;
  const auto n = [](std::int64_t v) { return std::to_string(v) + " "; };
  return "stage " + n(z.stage) + "world " + n(r.world_size) + "rank " + n(r.rank) + "mb " +
         n(r.ds.train_micro_batch_size_per_gpu) + "ga " + n(r.ds.gradient_accumulation_steps) + "bucket " +
         n(z.reduce_bucket_size) + "overlap " + n(z.overlap_comm) + "offload " +
         n(static_cast<int>(z.offload_optimizer.device)) + n(static_cast<int>(z.offload_param.device)) + "sub " +
         n(z.sub_group_size) + "prefetch " + n(z.stage3_prefetch_bucket_size) + "live " +
         n(z.stage3_max_live_parameters) + "reuse " + n(z.stage3_max_reuse_distance) + "persist " +
         n(z.stage3_param_persistence_threshold) + "sequential " + n(z.stage3_allgather_sequential) + "S " +
         n(r.workload.seq_len) + "ckpt " + n(r.workload.recompute.every) + "eager " +
         n(r.workload.attention == Attention::Eager) + "fused " + n(r.workload.kernels.fused_linear_cross_entropy) +
         "H " + n(r.model.hidden) + "F " + n(r.model.intermediate) + "L " + n(r.model.layers) + "h " + n(r.model.heads) +
         "g " + n(r.model.kv_heads) + "D " + n(r.model.head_dim) + "V " + n(r.model.vocab) + "tied " +
         n(r.model.tied_embeddings) + "finetune " + n(static_cast<int>(r.workload.finetune)) + r.alloc_conf;
}

}  // namespace zplan::testing
