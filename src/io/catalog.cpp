#include "io/catalog.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "io/model_reader.h"
#include "io/natural_order.h"
#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {

template <typename Value>
std::vector<std::string> names(const Value& value) {
  std::vector<std::string> all = {value.name};
  all.insert(all.end(), value.aliases.begin(), value.aliases.end());
  return all;
}

bool any_is(const std::vector<std::string>& all, const std::string& key) {
  return std::any_of(all.begin(), all.end(), [&](const std::string& name) { return name_key(name) == key; });
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Two entries that answer to one name would make the answer depend on their order.
template <typename Entry, typename Names>
void refuse_shared_names(const std::vector<Entry>& entries, const Names& names_of, const std::string& folder) {
  std::map<std::string, std::size_t> seen;  // key, index of the entry
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (const std::string& name : names_of(entries[i])) {
      if (seen.emplace(name_key(name), i).first->second != i) {
        throw InputError(folder, "'" + name + "' names two files", "rename one of the two");
      }
    }
  }
}

bool looks_like_a_path(const std::string& name) {
  return ends_with(name, ".json") || name.rfind("./", 0) == 0 || name.rfind("../", 0) == 0 ||
         name.rfind("/", 0) == 0 || name.rfind("~", 0) == 0;
}

const ModelEntry* known_model(const Catalog& catalog, const std::string& name) {
  const std::string key = name_key(name);
  for (const ModelEntry& entry : catalog.models) {
    if (any_is(names(entry.model), key)) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string short_name(const Gpu& gpu) {
  const std::vector<std::string> all = names(gpu);
  return *std::min_element(all.begin(), all.end(),
                           [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
}

Catalog load_catalog(const FileSource& files, const std::string& folder) {
  Catalog catalog;
  for (const std::string& file : files.list(folder + "/models")) {
    if (!ends_with(file, ".json")) continue;
    const std::string text = files.read(file);
    catalog.models.push_back({read_catalog_model(text, file), file, text});
  }
  for (const std::string& file : files.list(folder + "/hardware/gpus")) {
    if (ends_with(file, ".json")) catalog.gpus.push_back(read_gpu(files.read(file), file));
  }
  std::sort(catalog.models.begin(), catalog.models.end(), [](const ModelEntry& a, const ModelEntry& b) {
    return natural_less(a.model.name, b.model.name);
  });
  if (catalog.models.empty() || catalog.gpus.empty()) {
    throw InputError(folder, "no models/ and hardware/ here",
                     "set ZPLAN_DATA to the folder that holds zplan's models/ and hardware/");
  }
  refuse_shared_names(catalog.models, [](const ModelEntry& e) { return names(e.model); }, folder + "/models");
  refuse_shared_names(
      catalog.gpus,
      [](const GpuEntry& e) {
        auto all = names(e.gpu);
        all.push_back(e.gpu.id);
        return all;
      },
      folder + "/hardware/gpus");
  const FindGpu find = [&catalog](const std::string& name, const std::string& where) {
    return find_gpu(catalog, name, where).gpu;
  };
  for (const std::string& file : files.list(folder + "/hardware/nodes")) {
    if (ends_with(file, ".json")) catalog.nodes.push_back(read_node(files.read(file), file, find));
  }
  return catalog;
}

const ModelEntry& find_model(const Catalog& catalog, const std::string& name, const std::string& where) {
  if (const ModelEntry* entry = known_model(catalog, name)) return *entry;
  std::vector<std::string> known;
  for (const ModelEntry& entry : catalog.models) known.push_back(entry.model.name);
  // "org/name": the organisation says nothing about the likeness.
  const auto near = nearest(name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1), known);
  throw InputError(where, "unknown model '" + name + "'",
                   (near.empty() ? std::string() : "did you mean " + one_of(near) + "? ") +
                       "`zplan models` lists those known by name; any other works by the path of its config.json");
}

const GpuEntry& find_gpu(const Catalog& catalog, const std::string& name, const std::string& where) {
  const std::string key = name_key(name);
  std::vector<std::string> known, begin_so;
  for (const GpuEntry& entry : catalog.gpus) {
    if (any_is(names(entry.gpu), key) || name_key(entry.gpu.id) == key) return entry;
    known.push_back(short_name(entry.gpu));
    const std::string short_key = name_key(known.back());
    if (!key.empty() && short_key.rfind(key, 0) == 0) begin_so.push_back(known.back());
  }
  if (begin_so.size() > 1) {
    throw InputError(where, "'" + name + "' may be several GPUs", "say which: " + one_of(begin_so));
  }
  const auto near = nearest(name, known, 4);
  throw InputError(where, "unknown GPU '" + name + "'",
                   (near.empty() ? std::string() : "did you mean " + one_of(near) + "? ") +
                       "`zplan gpus` lists those known by name; describe any other in a hardware file");
}

const NodeEntry* find_node(const Catalog& catalog, const std::string& name) {
  const std::string key = name_key(name);
  for (const NodeEntry& entry : catalog.nodes) {
    if (name_key(entry.node.id) == key || name_key(entry.name) == key) return &entry;
  }
  return nullptr;
}

ModelEntry model_entry(const Catalog& catalog, const FileSource& files, const std::string& name,
                       const std::string& where) {
  if (const ModelEntry* entry = known_model(catalog, name)) return *entry;
  for (const std::string& file : {name, name + "/config.json"}) {
    if (!files.exists(file)) continue;
    const std::string text = files.read(file);
    return {read_model(text, file), file, text};
  }
  if (looks_like_a_path(name)) {
    throw InputError(where, "there is no file '" + name + "'", "check the path of the model's config.json");
  }
  return find_model(catalog, name, where);  // throws, with the nearest names
}

Model model_named(const Catalog& catalog, const FileSource& files, const std::string& name,
                  const std::string& where) {
  return model_entry(catalog, files, name, where).model;
}

Model model_named(const Catalog& catalog, const FileSource& files, const std::string& name,
                  const std::string& where, const nlohmann::json& overrides) {
  const ModelEntry entry = model_entry(catalog, files, name, where);
  return overrides.empty() ? entry.model : read_model(entry.text, entry.file, overrides);
}

}  // namespace zplan
