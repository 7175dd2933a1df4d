// A decoder-only language model as its Hugging Face config.json describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zplan {

// Sparse feed-forward of a mixture-of-experts model (Qwen3-MoE, Mixtral).
struct Experts {
  std::int64_t count = 0;          // num_experts
  std::int64_t per_token = 0;      // num_experts_per_tok
  std::int64_t intermediate = 0;   // moe_intermediate_size
  friend bool operator==(const Experts&, const Experts&) = default;
};

struct Model {
  std::string name;                  // "Qwen3-8B"
  std::vector<std::string> aliases;  // "Qwen/Qwen3-8B"
  std::string model_type;            // HF "model_type": qwen3, qwen3_moe, qwen2, llama, mistral
  std::int64_t hidden = 0;           // hidden_size, H
  std::int64_t intermediate = 0;     // intermediate_size, F
  std::int64_t layers = 0;           // num_hidden_layers, L
  std::int64_t heads = 0;            // num_attention_heads, h
  std::int64_t kv_heads = 0;         // num_key_value_heads, g
  std::int64_t head_dim = 0;         // D; hidden / heads where the config is silent
  std::int64_t vocab = 0;            // vocab_size, V
  std::int64_t max_positions = 0;    // max_position_embeddings
  bool tied_embeddings = false;      // tie_word_embeddings: lm_head is the embedding
  bool qkv_bias = false;             // bias on q, k and v (Qwen2; attention_bias of Llama/Qwen3)
  bool o_bias = false;               // bias on o (attention_bias of Llama/Qwen3)
  bool mlp_bias = false;             // bias on gate, up and down
  bool qk_norm = false;              // RMSNorm over head_dim on q and k (Qwen3)
  std::optional<std::int64_t> sliding_window;  // tokens that a query sees (Mistral); absent: all before it
  std::optional<Experts> experts;    // absent: dense
  std::optional<std::int64_t> published_parameters;  // what the publisher says, to the unit
  std::string source;

  std::int64_t attention_width() const { return heads * head_dim; }   // A
  std::int64_t kv_width() const { return kv_heads * head_dim; }       // K
  friend bool operator==(const Model&, const Model&) = default;
};

// Throws InputError, naming `where` (a file or option) and the key, if the sizes contradict each other.
void validate(const Model& model, const std::string& where);

}  // namespace zplan
