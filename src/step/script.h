// A model's forward and backward as instructions: the event tables of the run's kernels, resolved to slots,
// parameters and modules once and then run for every layer and micro-step by an engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inventory/parameters.h"
#include "spec/run.h"
#include "step/component.h"
#include "step/modules.h"

namespace zplan {

struct Instruction {
  enum class Op : std::uint8_t {
    Allocate,         // slot, bytes, label
    Free,             // slot
    Rename,           // slot takes the block of slot `other`
    Gradient,         // slot holds the gradient of parameter `other`: the engine takes it
    EnterForward,     // module `other`: pre-forward hook
    LeaveForward,     // post-forward hook
    EnterBackward,    // pre-backward hook
    LeaveBackward,    // post-backward hook
    DropWeight,       // backward drops its hold on the weight of module `other`
    ForwardCublas,    // first matmul of the main thread: workspace, once; other: 1 = cuBLASLt
    BackwardCublas,   // first matmul of autograd's thread
  };
  Op op = Op::Allocate;
  bool local = false;         // slot, parameter and module are relative to the layer
  std::int8_t layer_shift = 0;  // slot of the layer below: -1
  bool recompute = false;     // inside a recomputation
  std::uint16_t label = 0;    // index in Script::labels
  std::int32_t slot = -1;
  std::int32_t other = -1;
  std::int64_t bytes = 0;
  float flops = 0;            // of the matrix product that fills the block
};
using Instructions = std::vector<Instruction>;

// What an allocation is, for people: "mul: ds", and which part of the sum it belongs to.
struct Label {
  std::string text;
  Component component = Component::Activations;
};

// The instructions of one kind of layer.
struct LayerScript {
  Instructions forward, backward;
};

struct Script {
  Instructions forward_begin, forward_end;     // before the first layer; final norm, head, loss
  Instructions backward_prologue;              // before the engine's
  Instructions backward_begin, backward_end;   // loss and head; embedding
  Instructions backward_return;                // after the engine's epilogue
  Instructions eval_layer[2], eval_end;        // the same without gradients; [layer is the first one]
  // [layer is the first one][layer is checkpointed]
  LayerScript layers[2][2];
  // Finetune::Freeze without checkpointing, [layer is the first one]: frozen layers (no backward), and the first
  // trainable one.
  LayerScript frozen[2], lowest[2];
  // The top layer where it differs: under Liger's norms. [layer is the first one][layer is checkpointed]
  LayerScript top[2][2];
  bool has_top = false;
  bool torch_linears = false;                  // ZeRO-3 whose linears save views of their weights (torch_linear_layers)
  std::vector<Label> labels;
  std::int32_t outer_slots = 0, layer_slots = 0;
  std::vector<Parameter> parameters;
  std::int32_t first_layer_parameter = 0, parameters_per_layer = 0;
  Modules modules;
};

Script make_script(const Run& run);

}  // namespace zplan
