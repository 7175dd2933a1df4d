#include "io/hardware_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

Bytes gib(const JsonObject& object, const std::string& key) {
  const double size = object.number(key);
  if (size <= 0) object.fail(key, "a size of 0 GiB", "give the size in GiB");
  return {std::llround(size * 1024 * 1024 * 1024)};
}

double positive_number(const JsonObject& object, const std::string& key) {
  const double value = object.number(key);
  if (value <= 0) object.fail(key, "must be more than 0", "give the figure in the unit the key names");
  return value;
}

std::optional<double> maybe_positive(const JsonObject& object, const std::string& key) {
  return object.has(key) ? std::optional(positive_number(object, key)) : std::nullopt;
}

// "source" is one text for the whole file or an object of texts by key.
std::vector<Fact> facts(const json& value, const JsonObject& object) {
  const bool by_key = object.value("source").is_object();
  const std::string whole = by_key ? "" : object.text("source");
  std::vector<Fact> list;
  for (const auto& [key, item] : value.items()) {
    if (key == "id" || key == "name" || key == "aliases" || key == "source") continue;
    const auto text = item.is_string() ? item.get<std::string>() : item.dump();
    list.push_back({key, text, by_key ? object.object("source").text_or(key, "") : whole});
  }
  if (by_key) {
    for (const auto& [key, item] : object.value("source").items()) {
      if (!value.contains(key)) {
        throw InputError(object.where("source") + "/" + pointer_token(key), "a source for a key that is not there",
                         "remove it, or add \"" + key + "\"");
      }
      object.object("source").text(key);
    }
  }
  return list;
}

Gpu gpu_of(const JsonObject& object) {
  Gpu gpu;
  gpu.id = object.text("id");
  gpu.name = object.text("name");
  gpu.aliases = object.texts("aliases");
  gpu.memory_total = gib(object, "memory_total_gib");
  gpu.compute_capability = object.text("compute_capability");
  gpu.bf16 = object.flag("bf16");
  gpu.cublas_workspace = {object.positive("cublas_workspace_bytes")};
  gpu.sm_count = object.positive_or("sm_count", 0);
  gpu.memory_gb_per_s = positive_number(object, "memory_gb_per_s");
  gpu.bf16_tflops = maybe_positive(object, "bf16_dense_tflops").value_or(0);
  gpu.fp16_tflops = positive_number(object, "fp16_dense_tflops");
  gpu.fp32_tflops = positive_number(object, "fp32_tflops");
  gpu.measured_bf16_matmul_tflops = maybe_positive(object, "measured_bf16_matmul_tflops");
  gpu.measured_bf16_training_matmul_tflops = maybe_positive(object, "measured_bf16_training_matmul_tflops");
  gpu.nvlink_gb_per_s = maybe_positive(object, "nvlink_gb_per_s");
  gpu.pcie_gb_per_s = maybe_positive(object, "pcie_gb_per_s").value_or(0);
  if (object.has("context_bytes")) gpu.context = Bytes{object.positive("context_bytes")};
  if (object.has("nccl_collective_channels") || object.has("nccl_point_to_point_channels")) {
    gpu.nccl_channels = {object.positive("nccl_collective_channels"), object.positive("nccl_point_to_point_channels")};
  }
  object.ignore("nvidia_smi_mib");
  object.ignore("source");
  object.finish();
  return gpu;
}

Interconnect interconnect(const JsonObject& object, std::int64_t gpus) {
  if (!object.has("interconnect") && gpus == 1) return Interconnect::Pcie;  // nobody to talk to
  const std::string text = object.text("interconnect");
  if (text == "nvlink") return Interconnect::NvLink;
  if (text == "pcie") return Interconnect::Pcie;
  object.fail("interconnect", "'" + text + "' is not an interconnect", "write nvlink or pcie");
}

// All of a node but its GPU.
Node node_of(const JsonObject& object, const std::string& id) {
  Node node;
  node.id = id;
  node.gpus = object.positive("gpus");
  node.interconnect = interconnect(object, node.gpus);
  if (object.has("host_memory_gib")) node.host_memory = gib(object, "host_memory_gib");
  if (object.has("nvme_gb") && object.number("nvme_gb") > 0) {
    node.nvme = Bytes{std::llround(object.number("nvme_gb") * 1e9)};
  }
  node.nvme_read_gb_per_s = maybe_positive(object, "nvme_read_gb_per_s");
  node.nvme_write_gb_per_s = maybe_positive(object, "nvme_write_gb_per_s");
  // A cloud's vCPU is a hardware thread, two a core.
  const std::int64_t threads = object.positive_or("vcpus", 0);
  node.cpu_cores = object.positive_or("physical_cores", threads / 2);
  node.network_gb_per_s = maybe_positive(object, "network_gbit_per_s").value_or(0) / 8;
  object.ignore("topology");
  object.ignore("name");
  object.ignore("source");
  return node;
}

}  // namespace

GpuEntry read_gpu(const std::string& text, const std::string& file) {
  const json value = parse_json(text, file);
  const JsonObject object(value, file);
  return {gpu_of(object), facts(value, object)};
}

NodeEntry read_node(const std::string& text, const std::string& file, const FindGpu& find) {
  const json value = parse_json(text, file);
  const JsonObject object(value, file);
  NodeEntry entry;
  entry.node = node_of(object, object.text("id"));
  entry.node.gpu = find(object.text("gpu"), object.where("gpu"));
  object.finish();
  entry.name = object.text("name");
  entry.topology = object.text_or("topology", "");
  entry.facts = facts(value, object);
  return entry;
}

Cluster read_cluster(const std::string& text, const std::string& file, const FindGpu& find) {
  const json value = parse_json(text, file);
  const JsonObject object(value, file);
  Cluster cluster;
  cluster.asked = file;
  cluster.nodes = object.positive_or("nodes", 1);
  cluster.node = node_of(object, object.text_or("id", file));
  cluster.node.gpu = object.value("gpu").is_object() ? gpu_of(object.object("gpu"))
                                                     : find(object.text("gpu"), object.where("gpu"));
  object.finish();
  return cluster;
}

}  // namespace zplan
