#include "step/timeline.h"

#include <algorithm>
#include <utility>

#include "allocator/rounding.h"
#include "step/bf16_optimizer.h"
#include "step/training.h"
#include "step/zero0.h"
#include "step/zero12.h"
#include "step/zero3.h"

namespace zplan {
namespace {

// Index of an equal one, which is added where there is none.
template <class T>
std::size_t index_of(std::vector<T>& distinct, T value) {
  const auto it = std::find(distinct.begin(), distinct.end(), value);
  if (it != distinct.end()) return static_cast<std::size_t>(it - distinct.begin());
  distinct.push_back(std::move(value));
  return distinct.size() - 1;
}

// Reads a recorder's events and adds them up. A block that waits for another stream is no longer allocated, so that
// nothing here depends on a clock (docs/allocator.md#statistics).
class Meter {
 public:
  explicit Meter(const Recorder& recorder) : events_(recorder.history().events) {}

  std::int64_t bytes(BlockId block) const { return size_[static_cast<std::size_t>(block)]; }
  // Events before `end` are a stretch of the phase.
  void stretch(std::size_t end) {
    levels_.before.push_back(level_);
    std::int64_t highest = level_;
    for (; next_ < end; ++next_) {
      level_ += change(events_[next_]);
      highest = std::max(highest, level_);
    }
    levels_.highest.push_back(highest);
  }
  void stretch() { stretch(events_.size()); }
  // Events so far are somebody else's: only the sizes of their blocks matter.
  void skip() {
    for (; next_ < events_.size(); ++next_) change(events_[next_]);
  }
  void end_phase() {
    levels_.before.push_back(level_);
    timeline_.phases.push_back({begin_, index_of(timeline_.distinct, std::exchange(levels_, {}))});
    begin_ += std::exchange(level_, 0);
  }
  Timeline take() { return std::move(timeline_); }

 private:
  std::int64_t change(const Event& e) {
    switch (e.action) {
      case Action::Allocate:
        size_.push_back(e.bytes > 0 ? round_up(e.bytes, kMinBlock) : 0);
        return size_.back();
      case Action::Free:
      case Action::FreeRequested: return -bytes(e.block);
      case Action::FreeCompleted:
      case Action::EmptyCache:
      case Action::Mark: break;
    }
    return 0;
  }

  const std::vector<Event>& events_;
  std::size_t next_ = 0;
  std::vector<std::int64_t> size_;  // by block
  std::int64_t level_ = 0, begin_ = 0;
  Levels levels_;
  Timeline timeline_;
};

template <class Engine>
Timeline drive(const Run& run, const Script& script, const Schedule& schedule, Side side) {
  Recorder recorder(script.labels);
  Engine engine(run, script, recorder);
  const auto label = recorder.label("gradient of the model", Component::Gradients);
  Meter meter(recorder);
  for (const auto& phase : schedule.phases) {
    for (const auto& call : schedule.distinct[phase.calls].all) {
      if (call.of_weights() != (side == Side::Weights)) continue;
      const bool gradient = call.kind == EngineCall::Kind::Gradient;
      const BlockId block = gradient ? recorder.allocate(call.bytes, label) : -1;
      meter.skip();
      make_call(engine, call, phase.at, block);
      recorder.synchronize();
      meter.stretch();
    }
    meter.end_phase();
  }
  return meter.take();
}

}  // namespace

ModelTimeline model_timeline(const Run& run) {
  ModelTimeline m;
  m.script = make_script(run);
  Recorder recorder(m.script.labels);
  CallLog log(recorder, engine_of(run) == EngineKind::Zero3);
  train(run, m.script, recorder, log);
  Meter meter(recorder);
  auto entry = log.entries().begin();
  for (const auto& mark : recorder.history().phases) {
    Schedule::InPhase phase{mark.phase, mark.step, mark.micro_step, {}, 0};
    EngineCalls calls;
    for (; entry != log.entries().end() && entry->events < mark.end; ++entry) {
      meter.stretch(entry->events);
      calls.add(entry->call);
      if (entry->gradient >= 0) calls.all.back().bytes = meter.bytes(entry->gradient);
      if (entry->at != Accumulation{}) phase.at = entry->at;
    }
    meter.stretch(mark.end);
    meter.end_phase();
    phase.calls = index_of(m.schedule.distinct, std::move(calls));
    m.schedule.phases.push_back(phase);
  }
  m.timeline = meter.take();
  return m;
}

Timeline engine_timeline(const Run& run, const Script& script, const Schedule& schedule, Side side) {
  switch (engine_of(run)) {
    case EngineKind::Zero0: return drive<Zero0>(run, script, schedule, side);
    case EngineKind::Bf16Optimizer: return drive<Bf16Optimizer>(run, script, schedule, side);
    case EngineKind::Zero12: return drive<Zero12>(run, script, schedule, side);
    case EngineKind::Zero3: return drive<Zero3>(run, script, schedule, side);
  }
  return {};
}

}  // namespace zplan
