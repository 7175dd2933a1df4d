#include "io/catalog_text.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "inventory/parameters.h"
#include "io/suggest.h"
#include "io/text_table.h"
#include "units/text.h"

namespace zplan {
namespace {
using nlohmann::ordered_json;

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string dash_if_zero(double value) { return value > 0 ? decimal(value) : "-"; }

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// "key   value   source" rows.
std::string facts_text(const std::vector<Fact>& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const Fact& fact : facts) rows.push_back({fact.key, fact.value, fact.source});
  return table_text({{"", Align::Left}, {"", Align::Left}, {"", Align::Left}}, rows, 2);
}

std::vector<std::string> machine_row(const NodeEntry& entry) {
  const Node& node = entry.node;
  return {node.id,
          std::to_string(node.gpus),
          node.gpus == 1 ? "-" : node.interconnect == Interconnect::NvLink ? "NVLink" : "PCIe",
          node.host_memory ? text(*node.host_memory, 0) : "-",
          node.nvme ? text(*node.nvme, 0) : "-",
          node.cpu_cores > 0 ? std::to_string(node.cpu_cores) : "-",
          node.network_gb_per_s > 0 ? decimal(node.network_gb_per_s) : "-"};
}

std::vector<std::pair<std::string, Align>> machine_heading() {
  return {{"machine", Align::Left}, {"GPUs", Align::Right},  {"link", Align::Left},  {"host RAM", Align::Right},
          {"NVMe", Align::Right},   {"cores", Align::Right}, {"network GB/s", Align::Right}};
}

ordered_json model_object(const ModelEntry& entry) {
  ordered_json object = ordered_json::parse(entry.text);
  object["parameters"] = total_elements(parameters(entry.model)).count;
  object["tensors"] = parameters(entry.model).size();
  return object;
}

ordered_json facts_object(const std::vector<Fact>& facts) {
  ordered_json object = ordered_json::object();
  ordered_json sources = ordered_json::object();
  for (const Fact& fact : facts) {
    const auto value = ordered_json::parse(fact.value, nullptr, false);
    object[fact.key] = value.is_discarded() || fact.key == "compute_capability" ? ordered_json(fact.value) : value;
    if (!fact.source.empty()) sources[fact.key] = fact.source;
  }
  object["source"] = sources;
  return object;
}

ordered_json gpu_object(const GpuEntry& entry) {
  ordered_json object = {{"id", entry.gpu.id}, {"name", entry.gpu.name}, {"aliases", entry.gpu.aliases}};
  object.update(facts_object(entry.facts));
  return object;
}

ordered_json node_object(const NodeEntry& entry) {
  ordered_json object = {{"id", entry.node.id}, {"name", entry.name}};
  object.update(facts_object(entry.facts));
  return object;
}

std::string dump(const ordered_json& value) { return value.dump(2) + "\n"; }

}  // namespace

std::string models_text(const Catalog& catalog) {
  std::vector<std::vector<std::string>> rows;
  for (const ModelEntry& entry : catalog.models) {
    const Model& m = entry.model;
    rows.push_back({m.name, text_count(total_elements(parameters(m)).count), std::to_string(m.layers),
                    std::to_string(m.hidden), std::to_string(m.heads) + "/" + std::to_string(m.kv_heads),
                    text_grouped(m.vocab), m.tied_embeddings ? "tied" : "", m.experts ? std::to_string(m.experts->count) : "",
                    m.model_type});
  }
  return table_text({{"model", Align::Left}, {"parameters", Align::Right}, {"layers", Align::Right},
                     {"hidden", Align::Right}, {"heads/kv", Align::Right}, {"vocabulary", Align::Right},
                     {"", Align::Left}, {"experts", Align::Right}, {"type", Align::Left}}, rows) +
         "\nAny other model of these types works by the path of its config.json: --model path/to/config.json\n"
         "Sources and exact numbers: zplan models show NAME\n";
}

std::string model_text(const ModelEntry& entry) {
  const Model& m = entry.model;
  const auto tensors = parameters(m);
  const auto row = [](const std::string& key, const std::string& value) {
    return std::vector<std::string>{key, value};
  };
  std::vector<std::vector<std::string>> rows = {
      row("parameters", text_grouped(total_elements(tensors).count) + " in " + text_grouped(static_cast<std::int64_t>(tensors.size())) + " tensors"),
      row("in bf16", text(total_elements(tensors) * width(Precision::Bf16))),
      row("type", m.model_type),
      row("layers", std::to_string(m.layers)),
      row("hidden size", text_grouped(m.hidden)),
      row("attention", std::to_string(m.heads) + " heads of " + std::to_string(m.head_dim) + ", " +
                           std::to_string(m.kv_heads) + " key/value heads" + (m.qk_norm ? ", q/k norm" : "") +
                           (m.qkv_bias ? ", q/k/v bias" : "")),
      row("feed-forward", text_grouped(m.intermediate)),
      row("vocabulary", text_grouped(m.vocab) + (m.tied_embeddings ? ", head tied to the embedding" : "")),
      row("positions", text_grouped(m.max_positions)),
  };
  if (m.experts) {
    rows[6] = row("experts", std::to_string(m.experts->count) + " of width " + text_grouped(m.experts->intermediate) +
                                 ", " + std::to_string(m.experts->per_token) + " a token");
  }
  if (!m.aliases.empty()) rows.push_back(row("also", list(m.aliases)));
  rows.push_back(row("source", m.source));
  return m.name + "\n" + table_text({{"", Align::Left}, {"", Align::Left}}, rows, 2);
}

std::string gpus_text(const Catalog& catalog) {
  std::vector<std::vector<std::string>> rows;
  for (const GpuEntry& entry : catalog.gpus) {
    const Gpu& g = entry.gpu;
    rows.push_back({short_name(g), text(g.memory_total), decimal(g.memory_gb_per_s), dash_if_zero(g.bf16_tflops),
                    decimal(g.fp16_tflops), g.nvlink_gb_per_s ? decimal(*g.nvlink_gb_per_s) : "-",
                    dash_if_zero(g.pcie_gb_per_s), g.compute_capability, g.name == short_name(g) ? "" : g.name});
  }
  return table_text({{"--gpus NAME", Align::Left}, {"memory", Align::Right}, {"GB/s", Align::Right},
                     {"bf16 TFLOPS", Align::Right}, {"fp16", Align::Right}, {"NVLink GB/s", Align::Right},
                     {"PCIe", Align::Right}, {"cc", Align::Left}, {"full name", Align::Left}}, rows) +
         "\nMemory is what torch reports as total; TFLOPS are dense; links are one direction.\n"
         "Machines and sources: zplan gpus show NAME. `--gpus local` asks this machine's driver.\n";
}

std::string gpu_text(const GpuEntry& entry, const Catalog& catalog) {
  std::vector<std::vector<std::string>> machines;
  for (const NodeEntry& node : catalog.nodes) {
    if (node.node.gpu.id == entry.gpu.id) machines.push_back(machine_row(node));
  }
  return entry.gpu.name + "\n  also " + list(entry.gpu.aliases) + "\n\n" + facts_text(entry.facts) +
         (machines.empty() ? "\n  No machine with this GPU is known.\n" : "\n" + table_text(machine_heading(), machines, 2));
}

std::string node_text(const NodeEntry& entry) { return entry.name + "\n" + facts_text(entry.facts); }

std::string models_json(const Catalog& catalog) {
  ordered_json models = ordered_json::array();
  for (const ModelEntry& entry : catalog.models) models.push_back(model_object(entry));
  return dump(models);
}
std::string model_json(const ModelEntry& entry) { return dump(model_object(entry)); }

std::string gpus_json(const Catalog& catalog) {
  ordered_json gpus = ordered_json::array();
  for (const GpuEntry& entry : catalog.gpus) gpus.push_back(gpu_object(entry));
  return dump(gpus);
}
std::string gpu_json(const GpuEntry& entry, const Catalog& catalog) {
  ordered_json object = gpu_object(entry);
  object["machines"] = ordered_json::array();
  for (const NodeEntry& node : catalog.nodes) {
    if (node.node.gpu.id == entry.gpu.id) object["machines"].push_back(node_object(node));
  }
  return dump(object);
}
std::string node_json(const NodeEntry& entry) { return dump(node_object(entry)); }

}  // namespace zplan
