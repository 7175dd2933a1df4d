// GPUs, nodes and clusters from the JSON files of hardware/ and from the user's own hardware files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "spec/hardware.h"

namespace zplan {

// One value of a hardware file as it stands there, with where it comes from.
struct Fact {
  std::string key, value, source;
  friend bool operator==(const Fact&, const Fact&) = default;
};

struct GpuEntry {
  Gpu gpu;
  std::vector<Fact> facts;
  friend bool operator==(const GpuEntry&, const GpuEntry&) = default;
};

struct NodeEntry {
  Node node;
  std::string name;      // "AWS p4d.24xlarge"
  std::string topology;  // "NVSwitch all-to-all"; may be empty
  std::vector<Fact> facts;
  friend bool operator==(const NodeEntry&, const NodeEntry&) = default;
};

// Finds the GPU that a node names; throws InputError (told where the name stands) if there is none.
using FindGpu = std::function<Gpu(const std::string& name, const std::string& where)>;

// hardware/gpus/*.json
GpuEntry read_gpu(const std::string& text, const std::string& file);
// hardware/nodes/*.json: one node. "gpu" is a name.
NodeEntry read_node(const std::string& text, const std::string& file, const FindGpu& find);
// A user's hardware file: a node's keys and "nodes" (1 if absent); "gpu" is a name or an object as in
// hardware/gpus.
Cluster read_cluster(const std::string& text, const std::string& file, const FindGpu& find);

}  // namespace zplan
