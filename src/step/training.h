// The training loop of one rank: the model's script and an engine, micro-step by micro-step.
#pragma once

#include <cstdint>
#include <utility>

#include "spec/run.h"
#include "step/engine.h"
#include "step/interpreter.h"
#include "step/recorder.h"
#include "step/script.h"

namespace zplan {

// Writes the events of `run` into `recorder`, phase by phase; the script's and the engine's labels are the recorder's.
template <class Engine>
void train(const Run& run, const Script& script, Recorder& recorder, Engine& engine) {
  Interpreter interpreter(script, recorder, run.gpu.cublas_workspace);
  const auto layers = run.model.layers;
  interpreter.resize(layers);
  const auto kind = [&](std::int64_t l) -> const LayerScript& {
    const bool frozen = run.workload.finetune == Finetune::Freeze && !run.workload.recompute.any();
    if (frozen && l <= run.workload.freeze_layers) {
      return l < run.workload.freeze_layers ? script.frozen[l == 0] : script.lowest[l == 0];
    }
    if (script.has_top && l + 1 == layers) return script.top[l == 0][run.workload.recompute.at(l)];
    return script.layers[l == 0][run.workload.recompute.at(l)];
  };
  // The first tensor of the process opens the small pool.
  const auto first = recorder.allocate(4, recorder.label("first tensor of the process", Component::Workspace));
  recorder.free(first);
  recorder.mark(Phase::Start);
  engine.load();
  recorder.mark(Phase::Load);
  engine.init();
  recorder.mark(Phase::Init);
  // see_memory_usage(force=True) ends the constructors of stages 1 to 3 and of BF16_Optimizer, and speaks on rank 0.
  const bool talks = run.rank == 0 && engine_of(run) != EngineKind::Zero0;
  if (talks && run.versions.switches.init_resets_peaks) recorder.reset_peaks();
  Accumulation at;
  at.micro_steps = run.ds.gradient_accumulation_steps;
  const bool keeps_losses = run.versions.switches.engine_keeps_losses;
  const auto losses_label = recorder.label("mean loss of the engine", Component::LogitsLoss);
  BlockId losses = -1;
  const auto ids = recorder.label("input ids", Component::Activations);
  recorder.allocate(8 * run.tokens(), ids);
  for (at.step = 0; at.step < run.steps; ++at.step) {
    for (at.micro_step = 0; at.micro_step < at.micro_steps; ++at.micro_step) {
      engine.before_forward(at);
      engine.start_forward();
      interpreter.run(script.forward_begin, 0, engine);
      for (std::int64_t l = 0; l < layers; ++l) interpreter.run(kind(l).forward, l, engine);
      interpreter.run(script.forward_end, layers, engine);
      recorder.mark(Phase::Forward, at.step, at.micro_step);
      interpreter.run(script.backward_prologue, layers, engine);
      if (keeps_losses) {  // ENG:_backward_prologue, self.losses: the mean loss, summed over the micro-steps
        const auto mean = recorder.allocate(4, losses_label);
        if (losses >= 0) {
          const auto sum = recorder.allocate(4, losses_label);
          recorder.free(losses);
          recorder.free(mean);
          losses = sum;
        } else {
          losses = mean;
        }
      }
      engine.before_backward(at);
      interpreter.run(script.backward_begin, layers, engine);
      for (std::int64_t l = layers; l-- > 0;) interpreter.run(kind(l).backward, l, engine);
      interpreter.run(script.backward_end, layers, engine);
      engine.after_backward(at);
      engine.drop_graph();
      interpreter.run(script.backward_return, layers, engine);
      recorder.mark(Phase::Backward, at.step, at.micro_step);
      engine.pre_step(at);
      engine.step(at);
      engine.post_step(at);
      engine.step_returns(at);
      if (at.boundary() && losses >= 0) recorder.free(std::exchange(losses, -1));
      recorder.mark(Phase::Step, at.step, at.micro_step);
    }
  }
  if (run.workload.eval_after) {
    at.micro_step = 0;
    engine.before_forward(at);
    engine.start_forward();
    interpreter.run(script.forward_begin, 0, engine);
    for (std::int64_t l = 0; l < layers; ++l) interpreter.run(script.eval_layer[l == 0], l, engine);
    interpreter.run(script.eval_end, layers, engine);
    recorder.mark(Phase::Eval);
  }
}

}  // namespace zplan
