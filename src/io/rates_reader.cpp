#include "io/rates_reader.h"

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

double positive(const JsonObject& row, const char* key) {
  const double x = row.number(key);
  if (x <= 0) row.fail(key, "must be more than 0", "measure again");
  return x;
}

// The rows of one measurement; none where it failed or was skipped.
std::vector<JsonObject> rows(const JsonObject& object, const char* key) {
  if (!object.has(key) || !object.value(key).is_array()) return {};
  return object.objects(key);
}

Collective collective(const JsonObject& row) {
  const std::string kind = row.text("kind");
  if (kind == "all_reduce") return Collective::AllReduce;
  if (kind == "all_gather") return Collective::AllGather;
  if (kind == "reduce_scatter") return Collective::ReduceScatter;
  row.fail("kind", "'" + kind + "' is no collective", "measure again");
}

void read_layer(const JsonObject& row, MeasuredRates& m) {
  // A difference of two times: noise can make it nothing.
  if (row.value("forward_seconds_per_layer").is_number() && row.value("forward_seconds_per_layer").get<double>() <= 0)
    return;
  if (row.value("backward_seconds_per_layer").is_number() &&
      row.value("backward_seconds_per_layer").get<double>() <= 0)
    return;
  m.layers.push_back({row.positive("hidden"), row.positive("intermediate"), row.positive("heads"),
                      row.positive("tokens"), positive(row, "forward_seconds_per_layer"),
                      positive(row, "backward_seconds_per_layer")});
}

// Of the rows of as many ranks as there are GPUs: each thread count's parts, one after another.
void read_cpu_steps(const JsonObject& object, MeasuredRates& m) {
  double converted = 0;
  for (const JsonObject& r : rows(object, "cpu_optimizer")) {
    if (r.positive("ranks") != m.cluster.node.gpus) continue;
    const double threads = positive(r, "threads"), seconds = positive(r, "seconds");
    const std::string kind = r.text("kind");
    if (m.cpu_steps.empty() || m.cpu_steps.back().threads != threads) m.cpu_steps.push_back({threads, positive(r, "elements")});
    auto& step = m.cpu_steps.back();
    if (kind == "to 16 bits") converted = seconds;
    if (kind == "unscale" || kind == "to 16 bits" || kind.rfind("adam", 0) == 0) step.passes_s += seconds;
    if (kind == "fp32 to 16 bits on the GPU") step.pageable_s = seconds - converted;
  }
}

std::optional<double> links(const JsonObject& object, std::int64_t gpus) {
  const std::string of = std::to_string(gpus) + "_gpu_bytes_per_s_each";
  if (!object.has("h2d_" + of) || !object.has("d2h_" + of)) return std::nullopt;
  return (positive(object, ("h2d_" + of).c_str()) + positive(object, ("d2h_" + of).c_str())) / 2;
}

}  // namespace

bool is_rates(const std::string& text, const std::string& file) {
  const json value = parse_json(text, file);
  return value.is_object() && value.contains("schema") && value["schema"] == "zplan.rates/1";
}

MeasuredRates read_rates(const std::string& text, const std::string& file, const Catalog& catalog) {
  const json value = parse_json(text, file);
  const JsonObject object(value, file);
  if (object.text("schema") != "zplan.rates/1")
    object.fail("schema", "is not zplan.rates/1", "name a file that measure_rates.py wrote");
  MeasuredRates m;
  m.id = file.substr(file.find_last_of('/') + 1);
  Node& node = m.cluster.node;
  node.gpu = find_gpu(catalog, object.text("gpu"), object.where("gpu")).gpu;
  node.gpus = object.positive("gpus");
  node.interconnect = node.gpu.nvlink_gb_per_s ? Interconnect::NvLink : Interconnect::Pcie;
  node.cpu_cores = object.count_or("host_cores", 0);
  m.precision = node.gpu.bf16 ? Precision::Bf16 : Precision::Fp16;
  for (const JsonObject& r : rows(object, "matmul")) {
    m.products.push_back({positive(r, "m"), positive(r, "n"), positive(r, "k"), positive(r, "seconds")});
  }
  for (const JsonObject& r : rows(object, "attention")) {
    m.attention.push_back({positive(r, "batch"), positive(r, "s"), positive(r, "heads") * positive(r, "head_dim"),
                           positive(r, "forward_seconds"), positive(r, "backward_seconds")});
  }
  for (const JsonObject& r : rows(object, "element_wise")) {
    m.element_wise.push_back({positive(r, "elements"), positive(r, "bytes"), positive(r, "seconds"), r.text("kind") == "to fp32"});
  }
  for (const JsonObject& r : rows(object, "decoder_layer")) read_layer(r, m);
  read_cpu_steps(object, m);
  if (object.has("host_links") && object.value("host_links").is_object()) {
    const JsonObject l = object.object("host_links");
    m.link_bytes_per_s = links(l, 1);
    if (node.gpus > 1) m.all_links_bytes_per_s = links(l, node.gpus);
  }
  for (const JsonObject& world : rows(object, "collectives")) {
    for (const JsonObject& r : rows(world, "rows")) {
      m.sent.push_back({collective(r), r.positive("ranks"), positive(r, "bytes"), positive(r, "seconds")});
    }
  }
  return m;
}

}  // namespace zplan
