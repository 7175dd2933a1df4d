#include "io/gpus_option.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <tuple>

#include "io/suggest.h"
#include "spec/error.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr const char* where = "--gpus";
constexpr const char* shape = "write COUNTxGPU or NODESxCOUNTxGPU, such as 4xA100-40G or 2x8xH100-80G";

struct Asked {
  std::vector<std::int64_t> counts;  // the numbers before the name, at most two
  std::string name;
};

// Splits "2x8xH100": a number and an x (or *), as often as they come.
Asked split(const std::string& text) {
  Asked asked;
  std::size_t at = 0;
  while (true) {
    const bool negative = at < text.size() && text[at] == '-';
    std::size_t end = at + (negative ? 1 : 0);
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool number = end > at + (negative ? 1 : 0);
    if (!number || end >= text.size() || (text[end] != 'x' && text[end] != 'X' && text[end] != '*')) break;
    if (negative) throw InputError(where, text.substr(at, end - at) + " is not a number of GPUs", shape);
    if (end - at > 6) throw InputError(where, text.substr(at, end - at) + " is too large a number", shape);
    asked.counts.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  asked.name = text.substr(at);
  return asked;
}

// Host memory a GPU, for ordering; a node that does not say comes last.
std::int64_t host_memory(const Node& node) {
  return node.host_memory ? node.host_memory->count : std::numeric_limits<std::int64_t>::max();
}

Node share_of(const Node& whole, std::int64_t count) {
  Node part = whole;
  part.gpus = count;
  if (part.host_memory) part.host_memory = Bytes{whole.host_memory->count / whole.gpus * count};
  if (part.nvme) part.nvme = Bytes{whole.nvme->count / whole.gpus * count};
  part.cpu_cores = whole.cpu_cores * count / whole.gpus;
  part.network_gb_per_s = whole.network_gb_per_s * static_cast<double>(count) / static_cast<double>(whole.gpus);
  return part;
}

std::string described(const Node& node, bool several_nodes) {
  std::string text;
  if (node.gpus > 1) text += node.interconnect == Interconnect::NvLink ? "NVLink" : "PCIe between the GPUs";
  if (node.host_memory) text += (text.empty() ? "" : ", ") + zplan::text(*node.host_memory, 0) + " of host memory";
  if (several_nodes && node.network_gb_per_s > 0) {
    text += ", " + std::to_string(static_cast<int>(node.network_gb_per_s)) + " GB/s of network";
  }
  return text;
}

Note note(const NodeAssumed& assumed, bool several_nodes) {
  const std::string fix = "describe your machine in a hardware file, or give its --host-ram";
  if (assumed.from.empty()) {
    return {Note::Level::Warning, "node-unknown",
            "No machine with these GPUs is known: host memory and network are not checked, and the GPUs are "
            "assumed to talk over PCIe.",
            fix};
  }
  return {Note::Level::Info, "node-assumed",
          "The machine is assumed to be " + std::string(assumed.share ? "a share of " : "") + assumed.from + ": " +
              described(assumed.node, several_nodes) + ".",
          fix};
}

ClusterRead of_gpu(const std::string& text, const Asked& asked, const Gpu& gpu, const Catalog& catalog) {
  ClusterRead read;
  read.cluster.asked = text;
  std::int64_t count = asked.counts.empty() ? 1 : asked.counts.back();
  read.cluster.nodes = asked.counts.size() == 2 ? asked.counts.front() : 1;
  // More than any known machine holds: as many of the largest as it takes.
  std::int64_t largest = 0;
  for (const NodeEntry& entry : catalog.nodes) {
    if (entry.node.gpu.id == gpu.id) largest = std::max(largest, entry.node.gpus);
  }
  if (asked.counts.size() < 2 && largest > 0 && count > largest && count % largest == 0) {
    read.cluster.nodes = count / largest;
    count = largest;
    read.notes.push_back({Note::Level::Info, "nodes-assumed",
                          std::to_string(read.cluster.nodes * count) + " GPUs are taken as " +
                              std::to_string(read.cluster.nodes) + " nodes of " + std::to_string(count) + ".",
                          "write --gpus NODESxCOUNTx" + asked.name});
  }
  const NodeAssumed assumed = assumed_node(gpu, count, catalog);
  read.cluster.node = assumed.node;
  read.notes.push_back(note(assumed, read.cluster.nodes > 1));
  return read;
}

bool is_file_name(const std::string& text) {
  return text.size() > 5 && text.compare(text.size() - 5, 5, ".json") == 0;
}

}  // namespace

NodeAssumed assumed_node(const Gpu& gpu, std::int64_t count, const Catalog& catalog) {
  const NodeEntry* best = nullptr;
  const auto rank = [&](const NodeEntry& entry) {
    return std::tuple(entry.node.gpus != count, entry.node.gpus, host_memory(entry.node), entry.node.id);
  };
  for (const NodeEntry& entry : catalog.nodes) {
    if (entry.node.gpu.id != gpu.id || entry.node.gpus < count) continue;
    if (best == nullptr || rank(entry) < rank(*best)) best = &entry;
  }
  if (best == nullptr) {
    Node node;
    node.id = "unknown";
    node.gpu = gpu;
    node.gpus = count;
    return {node, "", false};
  }
  const bool share = best->node.gpus != count;
  return {share ? share_of(best->node, count) : best->node, best->name, share};
}

ClusterRead parse_gpus(const std::string& text, const Catalog& catalog, const FileSource& files) {
  const FindGpu find = [&catalog](const std::string& name, const std::string& at) {
    return find_gpu(catalog, name, at).gpu;
  };
  if (is_file_name(text)) return {read_cluster(files.read(text), text, find), {}};
  const Asked asked = split(text);
  for (const std::int64_t count : asked.counts) {
    if (count == 0) throw InputError(where, "'" + text + "' is a world size of 0", "ask for at least one GPU");
  }
  if (asked.counts.size() > 2 || asked.name.empty()) {
    throw InputError(where, "'" + text + "' does not say which GPUs", shape);
  }
  if (const NodeEntry* entry = find_node(catalog, asked.name); entry != nullptr && asked.counts.size() < 2) {
    return {{text, entry->node, asked.counts.empty() ? 1 : asked.counts.front()}, {}};
  }
  return of_gpu(text, asked, find_gpu(catalog, asked.name, where).gpu, catalog);
}

}  // namespace zplan
