// A model from its Hugging Face config.json, with the defaults of transformers' config classes.
// The files of models/ have the same keys, and `name`, `aliases`, `published_parameters` and `source` beside them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "spec/model.h"

namespace zplan {

// "qwen3", "qwen3_moe", "qwen2", "llama", "mistral".
std::vector<std::string> supported_model_types();

// Any config.json. Keys that change no size are passed over. `file` names the model where the text has no name:
// the folder for ".../Qwen3-8B/config.json", else the file's stem.
Model read_model(const std::string& text, const std::string& file);
// The same with some keys of the config replaced: how a measurement record says "six layers of it".
Model read_model(const std::string& text, const std::string& file, const nlohmann::json& overrides);

// A file of models/: also refuses unknown keys and wants name, published_parameters and source.
Model read_catalog_model(const std::string& text, const std::string& file);

}  // namespace zplan
