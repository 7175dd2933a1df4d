#include "io/model_reader.h"

#include <nlohmann/json.hpp>

#include "inventory/parameters.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/io/catalog.h"

using namespace zplan;
using nlohmann::json;

namespace {

// A small config.json of one architecture, with some keys changed (null: removed).
std::string config(const std::string& type, const json& changes = json::object()) {
  json c = {{"model_type", type},      {"hidden_size", 1024},         {"intermediate_size", 3072},
            {"num_hidden_layers", 2},  {"num_attention_heads", 16},   {"vocab_size", 1000}};
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) c.erase(key);
    else c[key] = value;
  }
  return c.dump();
}

}  // namespace

TEST_CASE("the parameter total of every known model is the published one", "[io]") {
  REQUIRE(catalog().models.size() >= 30);
  for (const ModelEntry& entry : catalog().models) {
    INFO(entry.file);
    REQUIRE(entry.model.published_parameters);
    CHECK(total_elements(parameters(entry.model)).count == *entry.model.published_parameters);
    CHECK_FALSE(entry.model.source.empty());
  }
}

TEST_CASE("Qwen3-8B has 8,190,735,360 parameters in 399 tensors", "[io]") {
  const auto all = parameters(find_model(catalog(), "qwen3-8b", "test").model);
  CHECK(total_elements(all).count == 8'190'735'360);
  CHECK(all.size() == 399);
}

TEST_CASE("what a config.json leaves out is what its class has in transformers 5.17", "[io]") {
  struct Expected {
    std::int64_t kv_heads, head_dim, max_positions;
    bool qkv_bias, o_bias, qk_norm, tied;
  };
  const auto [name, text, expected] = GENERATE(table<const char*, std::string, Expected>({
      {"qwen3", config("qwen3", {{"num_attention_heads", 32}}), {32, 128, 32768, false, false, true, false}},
      {"qwen2", config("qwen2", {{"num_attention_heads", 32}}), {32, 32, 32768, true, false, false, false}},
      {"llama", config("llama"), {16, 64, 2048, false, false, false, false}},
      {"mistral", config("mistral"), {8, 64, 131072, false, false, false, false}},
      {"qwen3_moe", config("qwen3_moe"), {4, 64, 32768, false, false, true, false}},
      {"llama, attention_bias", config("llama", {{"attention_bias", true}}), {16, 64, 2048, true, true, false, false}},
      {"mistral has no attention_bias", config("mistral", {{"attention_bias", true}}),
       {8, 64, 131072, false, false, false, false}},
      {"head_dim wins over hidden / heads", config("qwen3", {{"head_dim", 80}, {"num_key_value_heads", 8}}),
       {8, 80, 32768, false, false, true, false}},
      {"kv heads null: as many as heads",
       R"({"model_type": "qwen2", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2,
           "num_attention_heads": 16, "num_key_value_heads": null, "vocab_size": 1000})",
       {16, 64, 32768, true, false, false, false}},
      {"tied", config("llama", {{"tie_word_embeddings", true}}), {16, 64, 2048, false, false, false, true}},
  }));
  INFO(name);
  const Model m = read_model(text, "dir/Some-Model/config.json");
  CHECK(m.name == "Some-Model");
  CHECK(m.kv_heads == expected.kv_heads);
  CHECK(m.head_dim == expected.head_dim);
  CHECK(m.max_positions == expected.max_positions);
  CHECK(m.qkv_bias == expected.qkv_bias);
  CHECK(m.o_bias == expected.o_bias);
  CHECK(m.qk_norm == expected.qk_norm);
  CHECK(m.tied_embeddings == expected.tied);
}

TEST_CASE("the sliding window is Mistral's, 4,096 where its config is silent", "[io]") {
  const auto [name, text, window] = GENERATE(table<const char*, std::string, std::optional<std::int64_t>>({
      {"mistral", config("mistral"), 4096},
      {"mistral, 1024", config("mistral", {{"sliding_window", 1024}}), 1024},
      {"mistral, null", R"({"model_type": "mistral", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2,
           "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 1000, "sliding_window": null})", std::nullopt},
      {"qwen3, not in use", config("qwen3", {{"num_key_value_heads", 8}, {"sliding_window", 4096}}), std::nullopt},
  }));
  INFO(name);
  CHECK(read_model(text, "m.json").sliding_window == window);
}

TEST_CASE("experts of a mixture", "[io]") {
  const Model m = read_model(config("qwen3_moe", {{"num_experts", 64}, {"moe_intermediate_size", 512}}), "m.json");
  REQUIRE(m.experts);
  CHECK(*m.experts == Experts{64, 8, 512});
  CHECK_FALSE(read_model(config("qwen3", {{"num_key_value_heads", 8}}), "m.json").experts);
}

TEST_CASE("overrides replace keys of the config", "[io]") {
  const Model six = model_named(catalog(), MapFiles{}, "Qwen3-8B", "test", {{"num_hidden_layers", 6}});
  CHECK(six.layers == 6);
  CHECK(six.hidden == 4096);
  // Llama-3.1's config.json has no head_dim: it follows the width.
  CHECK(model_named(catalog(), MapFiles{}, "Llama-3.1-8B", "test", {{"hidden_size", 2048}}).head_dim == 64);
}

TEST_CASE("config.json files that cannot be used are refused", "[io]") {
  const auto [name, text, error] = GENERATE(table<const char*, std::string, std::string>({
      {"cut off", config("qwen3").substr(0, 60),
       "c.json: the JSON text ends too early, at line 1, column 61\n"
       "  fix: the file looks cut off: copy or download it again"},
      {"windows in some layers", config("qwen3", {{"use_sliding_window", true}}),
       "c.json:/use_sliding_window: attention over a window in some layers only is not supported\n"
       "  fix: use false"},
      {"unsupported architecture", config("gemma2"),
       "c.json:/model_type: 'gemma2' models are not supported\n"
       "  fix: zplan knows qwen3, qwen3_moe, qwen2, llama or mistral"},
      {"no model_type", config("qwen3", {{"model_type", nullptr}}),
       "c.json:/model_type: the key is missing\n  fix: add \"model_type\""},
      {"no layers", config("llama", {{"num_hidden_layers", nullptr}}),
       "c.json:/num_hidden_layers: the key is missing\n  fix: add \"num_hidden_layers\""},
      {"negative", config("llama", {{"hidden_size", -1024}}),
       "c.json:/hidden_size: expected an integer of 1 or more, found -1024\n  fix: write an integer of 1 or more"},
      {"heads that do not divide", config("llama", {{"num_attention_heads", 15}}),
       "c.json:/num_attention_heads: 15 heads do not divide hidden_size 1024\n"
       "  fix: add head_dim, or correct one of the two"},
      {"kv heads that do not divide", config("llama", {{"num_key_value_heads", 7}}),
       "c.json:/num_key_value_heads: 7 does not divide 16 heads\n  fix: use a divisor of num_attention_heads"},
      {"dense layers among sparse ones", config("qwen3_moe", {{"mlp_only_layers", {0}}}),
       "c.json:/mlp_only_layers: only mixtures with experts in every layer are supported\n  fix: use []"},
      {"quantised", config("llama", {{"quantization_config", {{"bits", 4}}}}),
       "c.json:/quantization_config: the weights of this checkpoint are already quantised\n"
       "  fix: use the config.json of the model it was made from"},
  }));
  INFO(name);
  CHECK(error_text([text = text] { read_model(text, "c.json"); }) == error);
}

TEST_CASE("a file of models/ may have no key that nobody reads", "[io]") {
  const std::string text = config("llama", {{"name", "M"}, {"published_parameters", 1}, {"source", "s"}, {"hidden_sise", 1}});
  CHECK(error_text([&] { read_catalog_model(text, "m.json"); }) ==
        "m.json:/hidden_sise: unknown key\n  fix: did you mean hidden_size?");
}

TEST_CASE("models are found by name, alias and path", "[io]") {
  const MapFiles files{{"/m/Mine/config.json", config("llama")}};
  CHECK(model_named(catalog(), files, "qwen/QWEN3-8b", "--model").name == "Qwen3-8B");
  CHECK(model_named(catalog(), files, "qwen3_8b", "--model").name == "Qwen3-8B");
  CHECK(model_named(catalog(), files, "/m/Mine", "--model").name == "Mine");
  CHECK(model_named(catalog(), files, "/m/Mine/config.json", "--model").name == "Mine");
  CHECK(error_text([&] { model_named(catalog(), files, "qwen3-9b", "--model"); }) ==
        "--model: unknown model 'qwen3-9b'\n  fix: did you mean Qwen3-4B, Qwen3-8B or Qwen2-7B? `zplan models` "
        "lists those known by name; any other works by the path of its config.json");
  CHECK(error_text([&] { model_named(catalog(), files, "./nothing.json", "--model"); }) ==
        "--model: there is no file './nothing.json'\n  fix: check the path of the model's config.json");
}
