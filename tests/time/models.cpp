#include "tests/time/models.h"

#include <map>

namespace zplan::testing {
namespace {

Model qwen3(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers, std::int64_t heads, bool tied) {
  Model m;
  m.model_type = "qwen3";
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

Model qwen2_7b() {
  Model m = qwen3(3584, 18944, 28, 28, false);
  m.model_type = "qwen2";
  m.kv_heads = 4;
  m.vocab = 152064;
  m.qk_norm = false;
  m.qkv_bias = true;
  return m;
}

Model qwen3_30b_a3b() {
  Model m = qwen3(2048, 6144, 48, 32, false);
  m.model_type = "qwen3_moe";
  m.kv_heads = 4;
  m.experts = Experts{128, 8, 768};
  return m;
}

}  // namespace

Model model(const std::string& name) {
  static const std::map<std::string, Model> models = {
      {"qwen3-0.6b", qwen3(1024, 3072, 28, 16, true)},   {"qwen3-1.7b", qwen3(2048, 6144, 28, 16, true)},
      {"qwen3-4b", qwen3(2560, 9728, 36, 32, true)},     {"qwen3-8b", qwen3(4096, 12288, 36, 32, false)},
      {"qwen3-32b", qwen3(5120, 25600, 64, 64, false)},  {"qwen2.5-7b", qwen2_7b()},
      {"qwen3-30b-a3b", qwen3_30b_a3b()},
  };
  Model m = models.at(name);
  m.name = name;
  return m;
}

}  // namespace zplan::testing
