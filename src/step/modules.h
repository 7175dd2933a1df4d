// The modules of a decoder as ZeRO-3 hooks them: every nn.Module, containers and modules without parameters
// included, each with the parameters it owns itself (parameter_offload.py, _register_deepspeed_module).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inventory/parameters.h"
#include "spec/model.h"
#include "spec/workload.h"

namespace zplan {

struct Module {
  std::string name;                        // as in the event tables: "q_proj", "layer", "q.lora_a"
  std::int64_t layer = -1;
  std::vector<std::int32_t> parameters;    // own ones, by index in `parameters(model, workload)`, in order
  bool leaf = false;                       // a ZeRO-3 leaf: its whole sub-tree is fetched as one; it owns nothing itself
  std::vector<std::int32_t> subtree;       // own and its children's; filled where the model has leaves
  // Not a module but the place where `reader` reads a parameter that it does not own: PEFT's lora.Linear asks
  // for lora_A.weight's dtype, Liger's loss for lm_head.weight; or where backward drops one of a leaf's weights.
  std::int32_t reads = -1, reader = -1;
};

struct Modules {
  std::vector<Module> all;                 // outer ones first; then the layers, `per_layer` each, in order
  std::int32_t first_layer = 0;            // index of layer 0's first module
  std::int32_t per_layer = 0;
  std::map<std::string, std::int32_t> outer;  // by name, outside the layers
  std::map<std::string, std::int32_t> local;  // by name, offset in a layer
};

// A linear of the model itself: a projection of a layer, or the head.
bool is_linear(const Module& module);

// leaves: a mixture of experts is a leaf of ZeRO-3.
Modules modules(const Model& model, const Workload& workload, const std::vector<Parameter>& parameters, bool leaves);

}  // namespace zplan
