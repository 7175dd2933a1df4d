// What a user means by --gpus: "4xA100-40G", "2x8xH100", a node's name, or a hardware file.
#pragma once

#include <string>
#include <vector>

#include "io/catalog.h"
#include "io/files.h"
#include "spec/hardware.h"
#include "spec/note.h"

namespace zplan {

struct ClusterRead {
  Cluster cluster;
  std::vector<Note> notes;  // what had to be assumed
  friend bool operator==(const ClusterRead&, const ClusterRead&) = default;
};

// [nodes x] [GPUs a node x] NAME, where NAME is a GPU, a node of hardware/nodes ("2xdgx-h100") or, alone, a
// hardware file. Throws InputError. Of a bare GPU only the card is known: the machine around it is assumed to
// be like a known one (see assumed_node), and a note says which.
ClusterRead parse_gpus(const std::string& text, const Catalog& catalog, const FileSource& files);

// The machine around `count` GPUs when nobody says. Of the known nodes with exactly as many of these GPUs, the one
// with the least host memory: a plan that fits it fits the others. Else the smallest node with more of them, of
// which the job gets its share. Else nothing but the GPUs is known, and they talk over PCIe.
struct NodeAssumed {
  Node node;
  std::string from;  // the known node's name; empty: none
  bool share = false;
  friend bool operator==(const NodeAssumed&, const NodeAssumed&) = default;
};
NodeAssumed assumed_node(const Gpu& gpu, std::int64_t count, const Catalog& catalog);

}  // namespace zplan
