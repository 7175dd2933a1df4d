// Settings without event tables of their own say so; a bad alloc_conf is an input error.
#include "step/unknown_events.h"

#include "step/simulation.h"

#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;

namespace {

template <class Change>
Run changed(Change change) {
  Run run;
  run.versions = default_versions();
  run.model.heads = 16, run.model.kv_heads = 8;
  change(run);
  return run;
}

}  // namespace

TEST_CASE("settings that are simulated with the tables of others are told", "[step]") {
  const auto [name, run, text] = GENERATE_COPY(table<std::string, Run, std::string>({
      {"bf16, stage 3", changed([](Run& r) { r.ds.zero.stage = 3; }), ""},
      {"all Liger kernels, stage 3, checkpointing", changed([](Run& r) {
         r.ds.zero.stage = 3;
         r.workload.kernels = {true, true, true, true};
         r.workload.recompute.every = 1;
       }), ""},
      {"adapters with dropout", changed([](Run& r) {
         r.workload.finetune = Finetune::Lora;
         r.workload.lora_dropout = 0.1;
       }), ""},
      {"fp32, stage 3, checkpointing, evaluation", changed([](Run& r) {
         r.ds.precision = Precision::Fp32;
         r.ds.zero.stage = 3;
         r.model.heads = 8, r.model.kv_heads = 2;
         r.workload.recompute.every = 1;
         r.workload.eval_after = true;
       }), ""},
      {"fp32, as many keys as queries", changed([](Run& r) {
         r.ds.precision = Precision::Fp32;
         r.model.heads = r.model.kv_heads = 8;
       }), "fp32 without grouped heads, where sdpa takes its memory-efficient kernel: simulated with the plain products of grouped "
           "heads, which are too large."},
      {"fp32, adapters", changed([](Run& r) {
         r.ds.precision = Precision::Fp32;
         r.workload.finetune = Finetune::Lora;
       }), "fp32 with adapters or frozen layers: simulated with the layers of 16-bit training, which are too small."},
      {"adapters, experts", changed([](Run& r) {
         r.workload.finetune = Finetune::Lora;
         r.model.experts = Experts{8, 2, 64};
       }), "Adapters beside experts: simulated by rule: adapters on the attention, experts that pass gradients on and get none."},
      {"torch_autocast, stage 2", changed([](Run& r) {
         r.ds.torch_autocast = r.model.qk_norm = true;
         r.ds.zero.stage = 2;
       }), ""},
      {"torch_autocast, stage 3", changed([](Run& r) {
         r.ds.torch_autocast = r.model.qk_norm = true;
         r.ds.zero.stage = 3;
       }), ""},
      {"torch_autocast, checkpointing", changed([](Run& r) {
         r.ds.torch_autocast = r.model.qk_norm = true;
         r.workload.recompute.every = 1;
       }), "torch_autocast with checkpointing, adapters, frozen layers, Liger, a mask or a model without q and k norms: "
           "simulated with the layers of 16-bit training, which are too small."},
      {"Liger's norm, a padding mask", changed([](Run& r) {
         r.workload.kernels.rms_norm = true;
         r.workload.attention_mask = true;
       }), "Liger's RMSNorm, rope or SwiGLU in fp32, with experts, frozen layers or a padding mask: simulated with transformers' own "
           "modules."},
      {"Liger's norm, eager", changed([](Run& r) {
         r.workload.kernels.rms_norm = true;
         r.workload.attention = Attention::Eager;
       }), ""},
      {"eager, as many keys as queries", changed([](Run& r) {
         r.workload.attention = Attention::Eager;
         r.model.heads = r.model.kv_heads = 8;
       }), "Eager attention or a mask without grouped heads: simulated with repeated keys and values, which are too large."},
      {"adapters, eager", changed([](Run& r) {
         r.workload.finetune = Finetune::Lora;
         r.workload.attention = Attention::Eager;
       }), ""},
  }));
  INFO(name);
  const auto notes = unknown_events(run);
  REQUIRE(notes.size() == (text.empty() ? 0 : 1));
  if (text.empty()) return;
  CHECK(notes[0].level == Note::Level::Warning);
  CHECK(notes[0].code == "events-of-other-tables");
  CHECK(notes[0].text == text);
}

TEST_CASE("alloc_conf is read as PyTorch reads it", "[step]") {
  const auto conf = [](const char* text) { return allocator_options(changed([&](Run& r) { r.alloc_conf = text; })); };
  CHECK(conf("expandable_segments:True,max_split_size_mb:512").expandable_segments);
  CHECK_FALSE(conf("expandable_segments:True,expandable_segments:False").expandable_segments);
  CHECK(conf("max_split_size_mb:512").max_split_size == MiB(512).count);
  CHECK(error_text([&] { conf("expandable_segments:Maybe"); }).rfind("alloc_conf \"expandable_segments:Maybe\": ", 0) == 0);
}
