#include "io/model_reader.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

// What transformers' config and model classes fix for an architecture (transformers 5.17,
// models/<type>/configuration_<type>.py and modeling_<type>.py). 0 kv_heads: as many as num_attention_heads;
// 0 head_dim: hidden_size / num_attention_heads. Every one of the classes has tie_word_embeddings False.
struct Architecture {
  const char* model_type;
  std::int64_t kv_heads, head_dim, max_positions;
  enum class Bias { None, Qkv, Config } attention_bias;  // hard-wired, or attention_bias of the config
  bool mlp_bias_key, qk_norm, experts;
};
constexpr std::array architectures = {
    Architecture{"qwen3", 32, 128, 32768, Architecture::Bias::Config, false, true, false},
    Architecture{"qwen3_moe", 4, 0, 32768, Architecture::Bias::Config, false, true, true},
    Architecture{"qwen2", 32, 0, 32768, Architecture::Bias::Qkv, false, false, false},
    Architecture{"llama", 0, 0, 2048, Architecture::Bias::Config, true, false, false},
    Architecture{"mistral", 8, 0, 131072, Architecture::Bias::None, false, false, false},
};

const Architecture& architecture(const JsonObject& config) {
  const std::string type = config.text("model_type");
  for (const Architecture& candidate : architectures) {
    if (type == candidate.model_type) return candidate;
  }
  config.fail("model_type", "'" + type + "' models are not supported",
              "zplan knows " + one_of(supported_model_types()));
}

std::int64_t kv_heads(const JsonObject& config, const Architecture& arch, std::int64_t heads) {
  if (config.has("num_key_value_heads")) return config.positive("num_key_value_heads");
  // An explicit null means "as many as heads"; a key that is not there takes the class's default.
  return config.given("num_key_value_heads") || arch.kv_heads == 0 ? heads : arch.kv_heads;
}

std::int64_t head_dim(const JsonObject& config, const Architecture& arch, const Model& model) {
  if (config.has("head_dim")) return config.positive("head_dim");
  if (arch.head_dim != 0) return arch.head_dim;
  if (model.hidden % model.heads != 0) {
    config.fail("num_attention_heads",
                std::to_string(model.heads) + " heads do not divide hidden_size " + std::to_string(model.hidden),
                "add head_dim, or correct one of the two");
  }
  return model.hidden / model.heads;
}

Experts experts(const JsonObject& config) {
  if (config.positive_or("decoder_sparse_step", 1) != 1) {
    config.fail("decoder_sparse_step", "only mixtures with experts in every layer are supported", "use 1");
  }
  if (config.has("mlp_only_layers") && !config.value("mlp_only_layers").empty()) {
    config.fail("mlp_only_layers", "only mixtures with experts in every layer are supported", "use []");
  }
  return {config.positive_or("num_experts", 128), config.positive_or("num_experts_per_tok", 8),
          config.positive_or("moe_intermediate_size", 768)};
}

// MistralConfig takes 4,096 where the key is not there, and none for null.
std::optional<std::int64_t> sliding_window(const JsonObject& config, const Architecture& arch) {
  if (std::string(arch.model_type) != "mistral") {
    if (config.flag_or("use_sliding_window", false)) {
      config.fail("use_sliding_window", "attention over a window in some layers only is not supported", "use false");
    }
    return std::nullopt;
  }
  if (config.has("sliding_window")) return config.positive("sliding_window");
  return config.given("sliding_window") ? std::nullopt : std::optional<std::int64_t>(4096);
}

Model shape(const JsonObject& config) {
  const Architecture& arch = architecture(config);
  if (config.has("quantization_config")) {
    config.fail("quantization_config", "the weights of this checkpoint are already quantised",
                "use the config.json of the model it was made from");
  }
  if (const std::string act = config.text_or("hidden_act", "silu"); act != "silu") {
    config.fail("hidden_act", "'" + act + "' is not supported", "use a model with silu");
  }
  Model model;
  model.model_type = arch.model_type;
  model.hidden = config.positive("hidden_size");
  model.layers = config.positive("num_hidden_layers");
  model.heads = config.positive("num_attention_heads");
  model.intermediate = config.positive("intermediate_size");
  model.vocab = config.positive("vocab_size");
  model.kv_heads = kv_heads(config, arch, model.heads);
  model.head_dim = head_dim(config, arch, model);
  model.max_positions = config.positive_or("max_position_embeddings", arch.max_positions);
  model.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  const bool bias = config.flag_or("attention_bias", false);
  model.qkv_bias = arch.attention_bias == Architecture::Bias::Qkv ||
                   (arch.attention_bias == Architecture::Bias::Config && bias);
  model.o_bias = arch.attention_bias == Architecture::Bias::Config && bias;
  model.mlp_bias = config.flag_or("mlp_bias", false) && arch.mlp_bias_key;
  model.qk_norm = arch.qk_norm;
  model.sliding_window = sliding_window(config, arch);
  if (arch.experts) model.experts = experts(config);
  validate(model, config.where());
  return model;
}

// ".../Qwen3-8B/config.json" -> "Qwen3-8B"; "my-model.json" -> "my-model".
std::string name_from_path(const std::string& file) {
  const std::filesystem::path path(file);
  if (path.filename() == "config.json" && path.has_parent_path() && path.parent_path().has_filename()) {
    return path.parent_path().filename().string();
  }
  return path.stem().string();
}

Model with_names(const JsonObject& config, const std::string& file) {
  Model model = shape(config);
  model.name = config.text_or("name", name_from_path(file));
  model.aliases = config.texts("aliases");
  model.published_parameters = config.maybe_count("published_parameters");
  model.source = config.text_or("source", file);
  return model;
}

}  // namespace

std::vector<std::string> supported_model_types() {
  std::vector<std::string> types;
  for (const Architecture& arch : architectures) types.push_back(arch.model_type);
  return types;
}

Model read_model(const std::string& text, const std::string& file) { return read_model(text, file, json::object()); }

Model read_model(const std::string& text, const std::string& file, const json& overrides) {
  json config = parse_json(text, file);
  if (config.is_object()) config.update(overrides);
  return with_names(JsonObject(config, file), file);
}

Model read_catalog_model(const std::string& text, const std::string& file) {
  const json value = parse_json(text, file);
  const JsonObject config(value, file);
  config.text("name");
  config.positive("published_parameters");
  config.text("source");
  Model model = with_names(config, file);
  for (const char* key : {"architectures", "use_sliding_window", "sliding_window"}) config.ignore(key);
  config.finish();
  return model;
}

}  // namespace zplan
