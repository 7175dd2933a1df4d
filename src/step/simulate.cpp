#include "step/simulate.h"

#include "step/bf16_optimizer.h"
#include "step/training.h"
#include "step/zero0.h"
#include "step/zero12.h"
#include "step/zero3.h"

namespace zplan {
namespace {

template <class Engine>
SimulatedHistory train_with(const Run& run, const Script& script, Recorder& recorder) {
  Engine engine(run, script, recorder);
  train(run, script, recorder, engine);
  return recorder.take();
}

}  // namespace

SimulatedHistory simulate_events(const Run& run) {
  const Script script = make_script(run);
  Recorder recorder(script.labels);
  switch (engine_of(run)) {
    case EngineKind::Zero0: return train_with<Zero0>(run, script, recorder);
    case EngineKind::Bf16Optimizer: return train_with<Bf16Optimizer>(run, script, recorder);
    case EngineKind::Zero12: return train_with<Zero12>(run, script, recorder);
    case EngineKind::Zero3: return train_with<Zero3>(run, script, recorder);
  }
  return {};
}

}  // namespace zplan
