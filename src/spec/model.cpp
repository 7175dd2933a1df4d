#include "spec/model.h"

#include "spec/error.h"

namespace zplan {
namespace {

void require_positive(std::int64_t value, const std::string& where, const char* key) {
  if (value > 0) return;
  throw InputError(where + ":/" + key, std::to_string(value) + " is not a positive count",
                   std::string("give ") + key + " as the model's config.json has it");
}

}  // namespace

void validate(const Model& m, const std::string& where) {
  require_positive(m.hidden, where, "hidden_size");
  require_positive(m.intermediate, where, "intermediate_size");
  require_positive(m.layers, where, "num_hidden_layers");
  require_positive(m.heads, where, "num_attention_heads");
  require_positive(m.kv_heads, where, "num_key_value_heads");
  require_positive(m.head_dim, where, "head_dim");
  require_positive(m.vocab, where, "vocab_size");
  if (m.heads % m.kv_heads != 0) {
    throw InputError(where + ":/num_key_value_heads",
                     std::to_string(m.kv_heads) + " does not divide " + std::to_string(m.heads) + " heads",
                     "use a divisor of num_attention_heads");
  }
  if (m.experts) {
    require_positive(m.experts->count, where, "num_experts");
    require_positive(m.experts->per_token, where, "num_experts_per_tok");
    require_positive(m.experts->intermediate, where, "moe_intermediate_size");
    if (m.experts->per_token > m.experts->count) {
      throw InputError(where + ":/num_experts_per_tok",
                       std::to_string(m.experts->per_token) + " of " + std::to_string(m.experts->count) +
                           " experts cannot be chosen",
                       "use at most num_experts");
    }
  }
}

}  // namespace zplan
