// What a model asks of its engine, written down: the calls of a training by phase. The one thing that the parts of a
// composed peak have in common. docs/memory-model.md#composed-peaks
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/history.h"
#include "step/engine.h"
#include "step/recorder.h"

namespace zplan {

// One call of an engine's member function, see step/engine.h.
struct EngineCall {
  enum class Kind : std::uint8_t {
    Load, Init, BeforeForward, BeforeBackward, Gradient, AfterBackward, Step, StepReturns,  // gradients and states
    StartForward, EnterForward, LeaveForward, EnterBackward, LeaveBackward, DropWeight, DropGraph, PreStep, PostStep,
  };
  Kind kind = Kind::Load;
  bool recompute = false;
  std::int32_t target = -1;  // module, or the parameter of a gradient
  std::int64_t bytes = 0;    // of the gradient
  bool of_weights() const { return kind >= Kind::StartForward; }
  friend bool operator==(const EngineCall&, const EngineCall&) = default;
};
// The calls of one phase.
struct EngineCalls {
  std::vector<EngineCall> all;
  std::vector<std::size_t> of_states;  // where in `all` those of gradients and states stand; the others are of weights
  void add(const EngineCall& call) {
    if (!call.of_weights()) of_states.push_back(all.size());
    all.push_back(call);
  }
  friend bool operator==(const EngineCalls&, const EngineCalls&) = default;
};

// The calls of a run. Phases that make the same calls share them.
struct Schedule {
  struct InPhase {
    Phase phase = Phase::Start;
    std::int64_t step = -1, micro_step = -1;  // as marked; -1: outside the loop
    Accumulation at;                          // what the calls are told
    std::size_t calls = 0;                    // index in `distinct`
    friend bool operator==(const InPhase&, const InPhase&) = default;
  };
  std::vector<EngineCalls> distinct;
  std::vector<InPhase> phases;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// An engine that allocates nothing, keeps every gradient alive and writes down what it is called for. `weights`:
// whether the engine it stands for has that side.
class CallLog {
 public:
  struct Entry {
    EngineCall call;
    Accumulation at;
    std::size_t events = 0;  // recorded before it
    BlockId gradient = -1;
  };

  CallLog(const Recorder& recorder, bool weights) : recorder_(recorder), weights_(weights) {}
  const std::vector<Entry>& entries() const { return entries_; }

  void load() { note({Kind::Load}); }
  void init() { note({Kind::Init}); }
  void before_forward(const Accumulation& at) { note({Kind::BeforeForward}, at); }
  void before_backward(const Accumulation& at) { note({Kind::BeforeBackward}, at); }
  void gradient(std::int32_t parameter, BlockId block) {
    note({Kind::Gradient, false, parameter});
    entries_.back().gradient = block;
  }
  void after_backward(const Accumulation& at) { note({Kind::AfterBackward}, at); }
  void step(const Accumulation& at) { note({Kind::Step}, at); }
  void step_returns(const Accumulation& at) { note({Kind::StepReturns}, at); }
  void start_forward() { note({Kind::StartForward}); }
  void enter_forward(std::int32_t module, bool recompute) { note({Kind::EnterForward, recompute, module}); }
  void leave_forward(std::int32_t module, bool recompute) { note({Kind::LeaveForward, recompute, module}); }
  void enter_backward(std::int32_t module) { note({Kind::EnterBackward, false, module}); }
  void leave_backward(std::int32_t module) { note({Kind::LeaveBackward, false, module}); }
  void drop_weight(std::int32_t module) { note({Kind::DropWeight, false, module}); }
  void drop_graph() { note({Kind::DropGraph}); }
  void pre_step(const Accumulation& at) { note({Kind::PreStep}, at); }
  void post_step(const Accumulation& at) { note({Kind::PostStep}, at); }

 private:
  using Kind = EngineCall::Kind;
  void note(const EngineCall& call, const Accumulation& at = {}) {
    if (call.of_weights() && !weights_) return;
    entries_.push_back({call, at, recorder_.history().events.size(), -1});
  }

  const Recorder& recorder_;
  bool weights_;
  std::vector<Entry> entries_;
};

// Makes a call that CallLog wrote down. A gradient comes in `block`.
template <class Engine>
void make_call(Engine& engine, const EngineCall& call, const Accumulation& at, BlockId block) {
  using Kind = EngineCall::Kind;
  switch (call.kind) {
    case Kind::Load: return engine.load();
    case Kind::Init: return engine.init();
    case Kind::BeforeForward: return engine.before_forward(at);
    case Kind::BeforeBackward: return engine.before_backward(at);
    case Kind::Gradient: return engine.gradient(call.target, block);
    case Kind::AfterBackward: return engine.after_backward(at);
    case Kind::Step: return engine.step(at);
    case Kind::StepReturns: return engine.step_returns(at);
    case Kind::StartForward: return engine.start_forward();
    case Kind::EnterForward: return engine.enter_forward(call.target, call.recompute);
    case Kind::LeaveForward: return engine.leave_forward(call.target, call.recompute);
    case Kind::EnterBackward: return engine.enter_backward(call.target);
    case Kind::LeaveBackward: return engine.leave_backward(call.target);
    case Kind::DropWeight: return engine.drop_weight(call.target);
    case Kind::DropGraph: return engine.drop_graph();
    case Kind::PreStep: return engine.pre_step(at);
    case Kind::PostStep: return engine.post_step(at);
  }
}

}  // namespace zplan
