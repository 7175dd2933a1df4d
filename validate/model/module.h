// Parameters and modules: what the engines of ZeRO see of a model. Names and nesting are those of
// Hugging Face, since DeepSpeed's hooks fire for every module, containers included.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace zplan::trainer {

struct Parameter {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  std::int64_t id = 0;  // order of construction
  at::Tensor value;     // the leaf that operators read; empty while stage 3 keeps it partitioned
};

struct Module {
  std::string name;
  std::int64_t id = 0;
  std::vector<Parameter*> own;  // not those of its children
};

// What an engine does around a module (stage 3: gather, release, prefetch). Backward calls come
// from autograd.
class ModuleHooks {
 public:
  ModuleHooks() = default;
  ModuleHooks(const ModuleHooks&) = delete;
  ModuleHooks& operator=(const ModuleHooks&) = delete;
  virtual ~ModuleHooks() = default;
  virtual void before_forward(const Module& module) = 0;
  virtual void after_forward(const Module& module) = 0;
  virtual void before_backward(const Module& module) = 0;  // a gradient of its output has arrived
  virtual void after_backward(const Module& module) = 0;   // the gradient of its input is complete
};

// Identities whose backward calls the hook (PO:PreBackwardFunctionForModule,
// PostBackwardFunctionModule).
at::Tensor announce_backward_begin(const at::Tensor& output, const Module& module,
                                   ModuleHooks& hooks);
at::Tensor announce_backward_end(const at::Tensor& input, const Module& module, ModuleHooks& hooks);

// Runs a module as nn.Module.__call__ does under DeepSpeed. `keyword_input`: the caller passes the
// input by keyword, which DeepSpeed's input hook does not see (self_attn).
enum class Input { Positional, Keyword };
template <class Body>
at::Tensor call(const Module& module, ModuleHooks* hooks, const at::Tensor& input, Body body,
                Input how = Input::Positional) {
  if (!hooks) return body(input);
  hooks->before_forward(module);
  at::Tensor output = body(how == Input::Positional && input.requires_grad()
                               ? announce_backward_end(input, module, *hooks)
                               : input);
  hooks->after_forward(module);
  return output.requires_grad() ? announce_backward_begin(output, module, *hooks) : output;
}

}  // namespace zplan::trainer
