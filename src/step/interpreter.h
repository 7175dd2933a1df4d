// Runs a model's instructions on a rank, with an engine that takes gradients and module hooks.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "step/recorder.h"
#include "step/script.h"

namespace zplan {

class Interpreter {
 public:
  Interpreter(const Script& script, Recorder& recorder, Bytes cublas_workspace)
      : script_(script), recorder_(recorder), cublas_workspace_(cublas_workspace.count),
        cublas_label_(recorder.label("cuBLAS workspace", Component::Workspace)),
        slots_(static_cast<std::size_t>(script.outer_slots), -1) {}

  // Slots for every layer; called once the number of layers is known.
  void resize(std::int64_t layers) {
    slots_.assign(static_cast<std::size_t>(script_.outer_slots + layers * script_.layer_slots), -1);
  }

  template <class Engine>
  void run(const Instructions& instructions, std::int64_t layer, Engine& engine) {
    const auto layer_base = script_.outer_slots + static_cast<std::int32_t>(layer) * script_.layer_slots;
    const auto parameter_base = script_.first_layer_parameter + static_cast<std::int32_t>(layer) * script_.parameters_per_layer;
    const auto module_base = script_.modules.first_layer + static_cast<std::int32_t>(layer) * script_.modules.per_layer;
    using Op = Instruction::Op;
    for (const auto& i : instructions) {
      const auto slot = [&]() -> BlockId& {
        return slots_[static_cast<std::size_t>(i.slot + (i.local ? layer_base + i.layer_shift * script_.layer_slots : 0))];
      };
      const auto module = i.local ? i.other + module_base : i.other;
      switch (i.op) {
        case Op::Allocate: slot() = recorder_.allocate(i.bytes, i.label, i.local ? layer : -1, kCompute, static_cast<double>(i.flops)); break;
        case Op::Free:
          recorder_.free(slot());
          slot() = -1;
          break;
        case Op::Rename: {
          auto& from = slots_[static_cast<std::size_t>(i.other + layer_base)];
          slot() = std::exchange(from, -1);
          break;
        }
        case Op::Gradient:
          engine.gradient(i.local ? i.other + parameter_base : i.other, std::exchange(slot(), -1));
          break;
        case Op::EnterForward: engine.enter_forward(module, i.recompute); break;
        case Op::LeaveForward: engine.leave_forward(module, i.recompute); break;
        case Op::EnterBackward: engine.enter_backward(module); break;
        case Op::LeaveBackward: engine.leave_backward(module); break;
        case Op::DropWeight: engine.drop_weight(module); break;
        case Op::ForwardCublas: workspace(forward_workspace_, i.other); break;
        case Op::BackwardCublas: workspace(backward_workspace_, i.other); break;
      }
    }
  }

 private:
  // One handle and workspace a thread, never freed (aten/src/ATen/cuda/CublasHandlePool.cpp); cuBLASLt, which adds
  // the bias in its epilogue, has 1 MiB of its own.
  void workspace(std::array<bool, 2>& taken, std::int32_t library) {
    if (std::exchange(taken[static_cast<std::size_t>(library)], true)) return;
    recorder_.allocate(library == 0 ? cublas_workspace_ : MiB(1).count, cublas_label_);
  }

  const Script& script_;
  Recorder& recorder_;
  std::int64_t cublas_workspace_;
  std::uint16_t cublas_label_;
  std::array<bool, 2> forward_workspace_{}, backward_workspace_{};  // cuBLAS, cuBLASLt
  std::vector<BlockId> slots_;
};

}  // namespace zplan
