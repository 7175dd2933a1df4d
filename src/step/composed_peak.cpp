#include "step/composed_peak.h"

#include <algorithm>
#include <utility>

#include "step/simulation.h"

namespace zplan {
namespace {

// Parts of a kind kept at once. The largest, the weights' of a model of 36 layers, have some 200 KB each.
constexpr std::size_t kMostParts = 1024;

// The highest level of one phase, relative to where it begins. The three parts take turns: the model between the
// calls, a side of the engine in each of its own; while one moves, the others stand still.
std::int64_t highest(const EngineCalls& calls, const Levels& model, const Levels& weights, const Levels& states) {
  std::int64_t peak = 0;
  std::size_t from = 0;  // the first call after the last one of the states
  for (std::size_t s = 0;; ++s) {
    // Up to the next call of the states, or the end of the phase: calls of the weights, of which there were from - s.
    const bool last = s == calls.of_states.size();
    const std::size_t to = last ? calls.all.size() : calls.of_states[s];
    const std::int64_t* of_model = model.highest.data() + from;
    const std::int64_t* after_model = model.before.data() + from + 1;
    const std::int64_t* before_weights = weights.before.data() + (from - s);
    const std::int64_t* of_weights = weights.highest.data() + (from - s);
    const std::size_t n = to - from;
    std::int64_t level = of_model[n] + before_weights[n];
    for (std::size_t i = 0; i < n; ++i) {
      level = std::max({level, of_model[i] + before_weights[i], after_model[i] + of_weights[i]});
    }
    peak = std::max(peak, level + states.before[s]);
    if (last) return peak;
    peak = std::max(peak, after_model[n] + before_weights[n] + states.highest[s]);
    from = to + 1;
  }
}

// What keeps the parts from being what a simulation says is live.
std::optional<std::string> not_composed(const Run& run, const AllocatorOptions& options) {
  if (run.capacity_limit) return "under a limit a run may end before its peak";
  for (const auto divisions : options.roundup_power2_divisions) {
    if (divisions != 0) return "roundup_power2_divisions";
  }
  // The copies of hpZ are made by whichever side partitions a parameter first.
  if (run.ds.zero.stage == 3 && run.ds.zero.zero_hpz_partition_size > 1) return "secondary partitions (hpZ)";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> PeakComposer::unsupported(const Run& run) {
  const auto options = allocator_options(run);
  if (!options.expandable_segments) return "without expandable segments blocks that are not split count whole";
  return not_composed(run, options);
}

void PeakComposer::forget_others(const Run& run) {
  const bool same = context_.model == run.model && context_.world_size == run.world_size && context_.gpu == run.gpu &&
                    context_.versions == run.versions;
  if (same) return;
  const auto made = parts_made_;
  *this = {};
  parts_made_ = made;
  context_ = run;
}

const PeakComposer::Model& PeakComposer::model(const Run& run) {
  PartKey key = key_of_model(run);
  if (const auto it = models_.find(key); it != models_.end()) return it->second;
  if (models_.size() == kMostParts) models_.clear();
  auto made = model_timeline(run_of(key, run));
  ++parts_made_;
  const auto schedule = std::find(schedules_.begin(), schedules_.end(), made.schedule);
  const auto index = static_cast<std::size_t>(schedule - schedules_.begin());
  if (schedule == schedules_.end()) schedules_.push_back(std::move(made.schedule));
  Model model{std::move(made.script), index, std::move(made.timeline)};
  return models_.emplace(std::move(key), std::move(model)).first->second;
}

const Timeline& PeakComposer::side(Parts<Timeline>& parts, PartKey key, const Run& run, const Model& model, Side side) {
  if (const auto it = parts.find(key); it != parts.end()) return it->second;
  if (parts.size() == kMostParts) parts.clear();
  auto made = engine_timeline(run_of(key, run), model.script, schedules_[key.schedule], side);
  ++parts_made_;
  return parts.emplace(std::move(key), std::move(made)).first->second;
}

std::optional<ComposedPeak> PeakComposer::allocated(const Run& run) {
  if (unsupported(run)) return std::nullopt;
  return live(run);
}

std::optional<ComposedPeak> PeakComposer::live(const Run& run) {
  if (not_composed(run, allocator_options(run))) return std::nullopt;
  forget_others(run);
  const Model& of_model = model(run);
  const auto schedule = of_model.schedule;
  const Timeline& weights = side(weights_, key_of_weights(run, schedule), run, of_model, Side::Weights);
  const Timeline& states = side(states_, key_of_states(run, schedule), run, of_model, Side::States);
  const auto& phases = schedules_[schedule].phases;
  // Phases in which every part does what it did in one before differ only in where they begin.
  struct Seen {
    std::size_t calls, model, weights, states;
    std::int64_t highest;
  };
  std::vector<Seen> seen;
  ComposedPeak result;
  result.phases.reserve(phases.size());
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const auto calls = phases[p].calls;
    const auto &m = of_model.timeline.phases[p], &w = weights.phases[p], &s = states.phases[p];
    auto it = std::find_if(seen.begin(), seen.end(), [&](const Seen& x) {
      return x.calls == calls && x.model == m.levels && x.weights == w.levels && x.states == s.levels;
    });
    if (it == seen.end()) {
      const auto top = highest(schedules_[schedule].distinct[calls], of_model.timeline.distinct[m.levels],
                               weights.distinct[w.levels], states.distinct[s.levels]);
      it = seen.insert(it, {calls, m.levels, w.levels, s.levels, top});
    }
    const Bytes top{m.begin + w.begin + s.begin + it->highest};
    result.phases.push_back(top);
    if (top <= result.bytes) continue;
    result.bytes = top;
    result.phase = phases[p].phase;
    result.step = phases[p].step;
    result.micro_step = phases[p].micro_step;
  }
  return result;
}

}  // namespace zplan
