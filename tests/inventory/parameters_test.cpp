#include "inventory/parameters.h"

#include "tests/catch.h"

using namespace zplan;

namespace {

// config.json of Qwen/Qwen3-8B and Qwen/Qwen3-0.6B.
Model qwen3(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers, std::int64_t heads, bool tied) {
  Model m;
  m.hidden = hidden;
  m.intermediate = intermediate;
  m.layers = layers;
  m.heads = heads;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.vocab = 151936;
  m.tied_embeddings = tied;
  m.qk_norm = true;
  return m;
}

}  // namespace

TEST_CASE("parameter totals and tensor counts equal the published ones", "[inventory]") {
  const auto [name, model, elements, tensors] =
      GENERATE_COPY(table<std::string, Model, std::int64_t, std::size_t>({
          {"Qwen3-8B", qwen3(4096, 12288, 36, 32, false), 8'190'735'360, 399},
          {"Qwen3-0.6B", qwen3(1024, 3072, 28, 16, true), 596'049'920, 310},
      }));
  INFO(name);
  const auto all = parameters(model);
  CHECK(total_elements(all).count == elements);
  CHECK(all.size() == tensors);
}

TEST_CASE("LoRA trains only adapters, named as PEFT names them", "[inventory]") {
  Workload lora;
  lora.finetune = Finetune::Lora;
  lora.lora_rank = 16;
  const auto all = parameters(qwen3(1024, 3072, 1, 16, true), lora);
  // q (1024->2048), k, v (1024->1024), o (2048->1024), gate, up (1024->3072), down (3072->1024), rank 16
  CHECK(trainable_elements(all).count == 16 * (3072 + 2 * 2048 + 3072 + 3 * 4096));
  CHECK(name(all[1]) == "model.layers.0.self_attn.q_proj.weight");
  CHECK(name(all[2]) == "model.layers.0.self_attn.q_proj.lora_A.default.weight");
  CHECK_FALSE(all[1].trainable);
  CHECK(all[2].trainable);
}
