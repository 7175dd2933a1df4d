// Activation checkpointing of a part of the model, both of torch's kinds
// (torch/utils/checkpoint.py):
//   non-reentrant  nothing that the region would save is kept; the first node of its backward that
//   asks for a
//                  saved tensor recomputes the region, up to the last tensor that was saved
//   reentrant      a custom autograd function: forward without a graph, backward recomputes the
//   whole region
//                  with one and runs its backward
#pragma once

#include <ATen/ATen.h>

#include <functional>

namespace zplan::trainer {

using Region = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor checkpoint_non_reentrant(const Region& region, const at::Tensor& input);
// The input must require a gradient: only then does autograd reach the function at all.
at::Tensor checkpoint_reentrant(const Region& region, const at::Tensor& input);

// Lets non-reentrant checkpointing see what autograd saves. Once a process, before the first
// operator.
void install_saved_tensor_hooks();

}  // namespace zplan::trainer
