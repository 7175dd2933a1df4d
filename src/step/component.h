// The parts that device memory is reported in. They sum to what is allocated.
#pragma once

#include <array>
#include <cstdint>

namespace zplan {

enum class Component : std::uint8_t {
  Parameters, Gradients, Optimizer, Activations, LogitsLoss, CommBuckets, GatheredParameters, StepTransients, Workspace,
};
constexpr std::size_t kComponents = 9;

// Keys of by_component in zplan.simulation/1.
constexpr std::array<const char*, kComponents> kComponentNames = {
    "parameters", "gradients", "optimizer", "activations", "logits_loss",
    "comm_buckets", "gathered_parameters", "step_transients", "workspace"};
constexpr const char* name(Component c) { return kComponentNames[static_cast<std::size_t>(c)]; }

}  // namespace zplan
