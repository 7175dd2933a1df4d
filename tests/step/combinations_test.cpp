// Every combination that can be asked for has events, and they balance: nothing is freed that is not alive, nothing is
// left over, the parts sum to the peak. A table or a branch that lacks a case throws here, not in a user's hands.
#include <exception>
#include <string>

#include "spec/error.h"
#include "step/simulation.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

Run small_run(const char* type) {
  Run run;
  run.model.model_type = type;
  run.model.hidden = 256, run.model.intermediate = 512, run.model.layers = 3, run.model.vocab = 1000;
  run.model.heads = 4, run.model.kv_heads = 2, run.model.head_dim = 64;
  run.model.qk_norm = std::string(type) == "qwen3" || std::string(type) == "qwen3_moe";
  run.model.qkv_bias = std::string(type) == "qwen2";
  if (std::string(type) == "qwen3_moe") run.model.experts = Experts{8, 2, 128};
  run.gpu.sm_count = 132;
  run.gpu.cublas_workspace = MiB(32);
  run.gpu.memory_total = GiB(40);
  run.world_size = 4;
  run.steps = 3;
  run.workload.seq_len = 64;
  run.workload.freeze_layers = 1;
  return run;
}

constexpr Kernels kKernels[] = {{}, {true, false, false, false}, {false, true, true, true}, {true, true, true, true}};

// FlashAttention takes 16 bits only.
bool can_run(const Run& run) {
  return run.ds.precision != Precision::Fp32 || (run.workload.attention != Attention::Flash && run.workload.finetune != Finetune::Qlora);
}

// "" if the run has balanced events, else what is wrong.
std::string fault(const Run& run) {
  try {
    const auto s = simulate(run, Detail::Components);
    Bytes sum;
    for (const Bytes b : s.peak.by_component) sum += b;
    if (sum != s.peak.allocated) return "parts do not sum to the peak";
    if (s.peak.reserved < s.peak.allocated) return "reserved below allocated";
    // Nothing is left over: the last two steps end with as much.
    const auto n = s.phases.size(), of_a_step = 3 * static_cast<std::size_t>(run.ds.gradient_accumulation_steps);
    const Bytes left = s.phases[n - 1].figures.allocated - s.phases[n - 1 - of_a_step].figures.allocated;
    return left.count == 0 ? "" : "a step leaves " + std::to_string(left.count) + " bytes";
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("every combination of stage, precision, checkpointing, fine-tuning, attention and kernels has events", "[step]") {
  const int stage = GENERATE(0, 1, 2, 3);
  const auto finetune = GENERATE(Finetune::Full, Finetune::Lora, Finetune::Qlora, Finetune::Freeze);
  const char* type = GENERATE("qwen3", "llama");
  Run run = small_run(type);
  run.ds.zero.stage = stage;
  run.ds.zero.overlap_comm = stage == 3;
  run.workload.finetune = finetune;
  for (const auto precision : {Precision::Bf16, Precision::Fp16, Precision::Fp32}) {
    for (const auto attention : {Attention::Sdpa, Attention::Flash, Attention::Eager}) {
      for (const std::int64_t every : {0, 1, 2}) {
        for (const auto impl : {RecomputeImpl::NonReentrant, RecomputeImpl::Reentrant}) {
          for (std::size_t k = 0; k < std::size(kKernels); ++k) {
            run.ds.precision = precision;
            run.workload.attention = attention;
            run.workload.recompute.every = every;
            run.workload.recompute.impl = impl;
            run.workload.kernels = kKernels[k];
            if (!can_run(run) || (every == 0 && impl == RecomputeImpl::Reentrant)) continue;
            // Kernels, norms of q and k, and fp16's loss scale meet in no table: one at a time.
            if (k > 0 && (!run.model.qk_norm || precision == Precision::Fp16)) continue;
            INFO("stage " << stage << ", " << type << ", finetune " << static_cast<int>(finetune) << ", precision "
                          << static_cast<int>(precision) << ", attention " << static_cast<int>(attention) << ", recompute "
                          << every << ", reentrant " << (impl == RecomputeImpl::Reentrant) << ", kernels " << k);
            CHECK(fault(run) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("so has every combination with several rows, a padding mask, biases, experts, dropout and 16-bit adapters", "[step]") {
  const int stage = GENERATE(0, 1, 2, 3);
  const auto finetune = GENERATE(Finetune::Full, Finetune::Lora, Finetune::Qlora, Finetune::Freeze);
  const char* type = GENERATE("qwen3", "llama", "qwen2", "qwen3_moe");
  Run run = small_run(type);
  const bool leaves = GENERATE(true, false);  // a mixture of experts as a leaf of stage 3, or as modules of their own
  if (!leaves && !run.model.experts) return;
  run.versions.switches.default_leaf_modules = leaves;
  const bool adapted = finetune == Finetune::Lora || finetune == Finetune::Qlora;
  run.ds.zero.stage = stage;
  run.ds.zero.overlap_comm = stage == 3;
  run.workload.finetune = finetune;
  for (const auto precision : {Precision::Bf16, Precision::Fp16, Precision::Fp32}) {
    for (const auto attention : {Attention::Sdpa, Attention::Eager}) {
      for (const bool padded : {false, true}) {
        for (const std::int64_t rows : {1, 2}) {
          for (const int recompute : {0, 1, 2}) {
            for (const int adapters : {0, 1, 2, 3}) {
              if (adapters > 0 && (!adapted || precision == Precision::Fp32)) continue;
              // A mask of padding changes nothing in eager attention, which has one; fp16's own rows are eager attention's.
              if (attention == Attention::Eager ? padded : precision == Precision::Fp16) continue;
              if (run.model.experts && adapters % 3 != 0) continue;
              run.ds.precision = precision;
              run.workload.attention = attention;
              run.workload.attention_mask = padded;
              run.ds.train_micro_batch_size_per_gpu = rows;
              run.workload.recompute.every = recompute == 0 ? 0 : 1;
              run.workload.recompute.impl = recompute == 2 ? RecomputeImpl::Reentrant : RecomputeImpl::NonReentrant;
              run.workload.lora_dropout = adapters % 2 == 1 ? 0.1 : 0;
              run.workload.adapter_autocast = adapters < 2;
              if (!can_run(run)) continue;
              INFO("stage " << stage << ", " << type << ", finetune " << static_cast<int>(finetune) << ", precision "
                            << static_cast<int>(precision) << ", attention " << static_cast<int>(attention) << ", padded " << padded
                            << ", rows " << rows << ", recompute " << recompute << ", adapters " << adapters << ", leaves " << leaves);
              CHECK(fault(run) == "");
            }
          }
        }
      }
    }
  }
}

TEST_CASE("so has every set of kernels in old and new DeepSpeed, with and without accumulation", "[step]") {
  const int stage = GENERATE(0, 1, 2, 3);
  const auto finetune = GENERATE(Finetune::Full, Finetune::Lora);
  const auto version = GENERATE(Version{0, 16, 9}, Version{0, 19, 6}, Version{0, 19, 8});
  Run run = small_run("qwen3");
  run.versions.deepspeed = version;
  run.versions.switches = deepspeed_switches(version);
  run.ds.zero.stage = stage;
  run.ds.zero.overlap_comm = stage == 3;
  run.workload.finetune = finetune;
  for (const auto precision : {Precision::Bf16, Precision::Fp16}) {
    for (const std::int64_t accumulation : {1, 2}) {
      for (const bool fp32_accumulation : {false, true}) {
        for (const Kernels& kernels : kKernels) {
          run.ds.precision = precision;
          run.ds.gradient_accumulation_steps = accumulation;
          run.ds.grad_accum_dtype = std::nullopt;
          if (fp32_accumulation) run.ds.grad_accum_dtype = Precision::Fp32;
          if (fp32_accumulation && (precision == Precision::Fp16 || stage != 1)) continue;
          run.workload.kernels = kernels;
          INFO("stage " << stage << ", finetune " << static_cast<int>(finetune) << ", DeepSpeed " << text(version)
                        << ", precision " << static_cast<int>(precision) << ", accumulation " << accumulation << ", in fp32 "
                        << fp32_accumulation << ", fused loss " << kernels.fused_linear_cross_entropy << ", norms " << kernels.rms_norm);
          CHECK(fault(run) == "");
        }
      }
    }
  }
}
