// What zplan knows without being told: the models of models/ and the GPUs and nodes of hardware/.
// Names are found without regard to case, spaces, dashes and underscores.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/files.h"
#include "io/hardware_reader.h"
#include "spec/model.h"

namespace zplan {

struct ModelEntry {
  Model model;
  std::string file, text;  // the JSON it was read from
  friend bool operator==(const ModelEntry&, const ModelEntry&) = default;
};

struct Catalog {
  std::vector<ModelEntry> models;  // by name, numbers by value
  std::vector<GpuEntry> gpus;
  std::vector<NodeEntry> nodes;
};

// Reads <folder>/models, <folder>/hardware/gpus and <folder>/hardware/nodes.
Catalog load_catalog(const FileSource& files, const std::string& folder);

// Each throws InputError at `where` with the nearest names if there is none.
const ModelEntry& find_model(const Catalog& catalog, const std::string& name, const std::string& where);
const GpuEntry& find_gpu(const Catalog& catalog, const std::string& name, const std::string& where);
// Null pointer if no node is called so.
const NodeEntry* find_node(const Catalog& catalog, const std::string& name);

// A model by name, or from the path of a config.json or of a folder with one.
ModelEntry model_entry(const Catalog& catalog, const FileSource& files, const std::string& name,
                       const std::string& where);
Model model_named(const Catalog& catalog, const FileSource& files, const std::string& name,
                  const std::string& where);
// The same with some keys of its config.json replaced.
Model model_named(const Catalog& catalog, const FileSource& files, const std::string& name,
                  const std::string& where, const nlohmann::json& overrides);

// The shortest of a GPU's names: "A100-40G".
std::string short_name(const Gpu& gpu);

}  // namespace zplan
