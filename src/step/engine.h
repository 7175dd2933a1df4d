// What every ZeRO engine shares. An engine is a class with two sides. Its gradients and states:
//   load(), init()                       the model comes to the device, deepspeed.initialize
//   before_forward(), before_backward()
//   gradient(parameter, block)           AccumulateGrad: the engine owns the block now
//   after_backward(), step(), step_returns()   epilogue of a micro-step; engine.step() at the boundary, its locals go
// and its weights, which only stage 3 gathers and releases:
//   start_forward()                      a forward of the root module begins
//   enter_forward / leave_forward / enter_backward / leave_backward (module)   nn.Module hooks
//   drop_weight(module), drop_graph()    backward no longer holds a weight, or the graph of the micro-step
//   pre_step(), post_step()              around step()
// A side acts on its own calls alone and never asks what the other has done: peaks are composed from both
// (docs/memory-model.md#composed-peaks). One file per engine: zero0, bf16_optimizer, zero12, zero3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/run.h"
#include "step/recorder.h"
#include "step/script.h"

namespace zplan {

struct Accumulation {
  std::int64_t micro_step = 0;   // of this step
  std::int64_t micro_steps = 1;  // gradient_accumulation_steps
  std::int64_t step = 0;
  bool boundary() const { return micro_step + 1 == micro_steps; }
  friend bool operator==(const Accumulation&, const Accumulation&) = default;
};

// The side of the weights of an engine that keeps whole parameters on the device: stages 0-2 hook gradients only.
struct NoModuleHooks {
  void start_forward() {}
  void enter_forward(std::int32_t, bool) {}
  void leave_forward(std::int32_t, bool) {}
  void enter_backward(std::int32_t) {}
  void leave_backward(std::int32_t) {}
  void drop_weight(std::int32_t) {}
  void drop_graph() {}
  void pre_step(const Accumulation&) {}
  void post_step(const Accumulation&) {}
  void step_returns(const Accumulation&) {}
};

// Which engine DeepSpeed wraps the optimizer in. ENG:_do_optimizer_sanity_check, _configure_optimizer.
enum class EngineKind { Zero0, Bf16Optimizer, Zero12, Zero3 };
EngineKind engine_of(const Run& run);

// Thread blocks of a torch reduction of n elements to one value, 512 threads each: one while a thread has less than
// 256 values; then at least 16 and at most 256 a thread, four blocks a multiprocessor between. aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig.
std::int64_t reduction_blocks(std::int64_t n, std::int64_t sm_count);
// Scratch of a vector norm of n doubles: one partial result per block (and a semaphore).
struct NormScratch {
  std::int64_t bytes = 0;  // 0: one block, no scratch
};
NormScratch norm_scratch(std::int64_t n, std::int64_t sm_count);

// ENG:buffered_allreduce_fallback over tensors of `width` bytes an element: a flat copy whenever 5e8 elements are passed
// (a view for one tensor), converted if the communication dtype is another.
void buffered_allreduce(Recorder& recorder, const std::vector<std::int64_t>& tensors, std::int64_t width,
                        std::int64_t communication_width, std::uint16_t label);

// Small tensors of an engine by name, allocated and freed in the order of an event table.
class Scalars {
 public:
  Scalars(Recorder& recorder, std::uint16_t label) : recorder_(recorder), label_(label) {}
  // Plays "a=8 b=8 -a c=4": allocates and frees in that order.
  void play(const char* events);
  BlockId take(const std::string& name);
  void keep(const std::string& name, BlockId block) { live_.emplace_back(name, block); }
  void rename(const std::string& from, const std::string& to);

 private:
  Recorder& recorder_;
  std::uint16_t label_;
  std::vector<std::pair<std::string, BlockId>> live_;
};

}  // namespace zplan
