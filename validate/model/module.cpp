#include "model/module.h"

#include <torch/csrc/autograd/custom_function.h>

namespace zplan::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
enum class Side { Begin, End };

// IValue carries no pointers to foreign types; addresses of hooks and module outlive every graph.
std::int64_t address(const void* p) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p));
}
template <class T>
T* pointer(const c10::IValue& v) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(v.toInt()));
}

template <Side side>
struct Announce : torch::autograd::Function<Announce<side>> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::int64_t module,
                            std::int64_t hooks) {
    ctx->saved_data["module"] = module;
    ctx->saved_data["hooks"] = hooks;
    return x.detach();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& hooks = *pointer<ModuleHooks>(ctx->saved_data["hooks"]);
    const auto& module = *pointer<const Module>(ctx->saved_data["module"]);
    if constexpr (side == Side::Begin)
      hooks.before_backward(module);
    else
      hooks.after_backward(module);
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor announce_backward_begin(const at::Tensor& output, const Module& module,
                                   ModuleHooks& hooks) {
  return Announce<Side::Begin>::apply(output, address(&module), address(&hooks));
}
at::Tensor announce_backward_end(const at::Tensor& input, const Module& module,
                                 ModuleHooks& hooks) {
  return Announce<Side::End>::apply(input, address(&module), address(&hooks));
}

}  // namespace zplan::trainer
