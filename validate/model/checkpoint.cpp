#include "model/checkpoint.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <mutex>
#include <vector>

namespace zplan::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::SavedVariableHooks;
using torch::autograd::variable_list;

// One checkpointed region of one forward (_CheckpointFrame).
struct Frame {
  Region region;
  at::Tensor input;
  std::size_t saved = 0;                    // tensors the forward saved
  std::size_t recomputed = 0;               // tensors the recomputation has saved so far
  std::vector<at::Tensor> values;           // by order of saving; emptied as backward takes them
  std::vector<std::weak_ptr<int>> holders;  // alive while the forward graph still may ask
  bool done = false;
};

// Thrown out of the recomputation when it has saved all that backward can ask for
// (_StopRecomputationError).
struct Stop {};

// The scope of a region on this thread: where a tensor that autograd saves goes.
struct Scope {
  std::shared_ptr<Frame> frame;
  bool recomputing = false;
};
// Autograd's default hooks are per thread in torch as well (SavedTensorDefaultHooksTLS).
std::vector<Scope>& scopes() {
  thread_local std::vector<Scope> stack;
  return stack;
}
struct Enter {
  explicit Enter(Scope scope) { scopes().push_back(std::move(scope)); }
  ~Enter() { scopes().pop_back(); }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;
};

void recompute(const std::shared_ptr<Frame>& frame) {
  frame->values.resize(frame->saved);
  const at::AutoGradMode with_graph(true);
  try {
    const Enter scope({frame, true});
    frame->region(frame->input);
  } catch (const Stop&) {
  }
  frame->done =
      true;  // the input stays: as in torch, it goes with the last saved tensor of the region
}

// Forward: keeps nothing but the position. Backward: asks the frame for the tensor of that
// position.
class Placeholder final : public SavedVariableHooks {
 public:
  explicit Placeholder(std::shared_ptr<Frame> frame)
      : frame_(std::move(frame)), alive_(std::make_shared<int>()) {}
  void call_pack_hook(const at::Tensor&) override {
    at_ = frame_->saved++;
    frame_->holders.push_back(alive_);
  }
  at::Tensor call_unpack_hook() override {
    if (!frame_->done) recompute(frame_);
    at::Tensor value =
        std::move(frame_->values[at_]);  // a saved tensor goes with the node that used it
    frame_->values[at_] = at::Tensor();
    TORCH_CHECK(value.defined(), "a checkpointed region saved different tensors when recomputed");
    return value;
  }

 private:
  std::shared_ptr<Frame> frame_;
  std::shared_ptr<int> alive_;
  std::size_t at_ = 0;
};

// Recomputation: the tensor is what backward will ask for. The graph built around it is thrown
// away.
class Recorder final : public SavedVariableHooks {
 public:
  explicit Recorder(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    const std::size_t at = frame_->recomputed++;
    if (at < frame_->saved && !frame_->holders[at].expired()) frame_->values[at] = tensor.detach();
    if (frame_->recomputed == frame_->saved) throw Stop{};
  }
  at::Tensor call_unpack_hook() override {
    TORCH_CHECK(false, "the graph of a recomputation has no backward");
  }

 private:
  std::shared_ptr<Frame> frame_;
};

class EngineWithHooks final : public torch::autograd::Engine {
 public:
  ~EngineWithHooks() override { stop(); }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (scopes().empty()) return nullptr;
    const Scope& scope = scopes().back();
    if (scope.recomputing) return std::make_unique<Recorder>(scope.frame);
    return std::make_unique<Placeholder>(scope.frame);
  }
  static torch::autograd::Engine& instance() {
    static auto* engine =
        new EngineWithHooks;  // like torch's own, never destroyed: its threads outlive main
    return *engine;
  }
};

struct Reentrant : torch::autograd::Function<Reentrant> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input,
                            const std::shared_ptr<Region>& region) {
    ctx->save_for_backward({input});
    auto holder = c10::make_intrusive<Holder>();
    holder->region = region;
    ctx->saved_data["region"] = c10::IValue::make_capsule(std::move(holder));
    const at::NoGradGuard no_graph;
    return (*region)(input);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    at::Tensor input = ctx->get_saved_variables()[0].detach();
    input.requires_grad_(true);
    const auto capsule = ctx->saved_data["region"].toCapsule();
    const at::AutoGradMode with_graph(true);
    at::Tensor output = (*static_cast<Holder*>(capsule.get())->region)(input);
    torch::autograd::backward({output}, {grads[0]});
    return {input.grad(), at::Tensor()};
  }

 private:
  struct Holder : torch::CustomClassHolder {
    std::shared_ptr<Region> region;
  };
};

}  // namespace

void install_saved_tensor_hooks() {
  static std::once_flag once;
  std::call_once(once, [] { torch::autograd::set_default_engine_stub(EngineWithHooks::instance); });
}

at::Tensor checkpoint_non_reentrant(const Region& region, const at::Tensor& input) {
  if (!at::GradMode::is_enabled()) return region(input);
  auto frame = std::make_shared<Frame>();
  frame->region = region;
  frame->input = input;
  const Enter scope({frame, false});
  return region(input);
}

at::Tensor checkpoint_reentrant(const Region& region, const at::Tensor& input) {
  if (!at::GradMode::is_enabled()) return region(input);
  return Reentrant::apply(input, std::make_shared<Region>(region));
}

}  // namespace zplan::trainer
