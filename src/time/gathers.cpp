#include "time/gathers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace zplan {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();

struct Limits {
  std::int64_t prefetch_bucket = 0, max_live = 0, max_reuse = 0, persistent = 0;
  bool sequential = false;
};

// A hook: of a module's fetch, before it runs, or of its release, after it.
struct Hook {
  std::int32_t module = 0;
  bool fetches = true;
  bool backward = false;  // counted as backward: of it, or of the recomputation within it
  // A release of backward that also lets go of what the recomputation before it fetched and does not train, from this
  // module to the one before `frozen_end` (update_recompute_parameters).
  std::int32_t frozen_begin = 0, frozen_end = 0;
};

// The coordinator's decisions, without memory: step/coordinator.h holds the same with every block.
class Replay {
 public:
  struct Module {
    std::vector<std::int64_t> elements;  // of its own parameters
    std::vector<bool> trains;
  };
  Replay(const Limits& limits, const std::vector<Module>& modules, std::vector<Hook> hooks)
      : limits_(limits), hooks_(std::move(hooks)) {
    for (const auto& module : modules) {
      auto& own = parameters_.emplace_back();
      for (std::size_t i = 0; i < module.elements.size(); ++i) {
        own.push_back(static_cast<std::int32_t>(state_.size()));
        state_.push_back({module.elements[i], module.elements[i] <= limits.persistent, module.trains[i]});
      }
    }
  }

  // Gives a module the parameters of another: a tied head.
  void share(std::int32_t module, std::int32_t owner) { parameters_[static_cast<std::size_t>(module)] = parameters_[static_cast<std::size_t>(owner)]; }

  // The first micro-step records the trace: no prefetch, and every module lets go of all that it has. The first that
  // follows the trace decides what each module releases, and that stands (lru_cache on __params_to_release).
  MicroStepGathers steady(bool accumulates) {
    index();
    micro_step(false);
    if (!accumulates) optimizer_step();
    micro_step(true);
    optimizer_step();
    return micro_step(true);
  }

 private:
  struct State {
    std::int64_t elements = 0;
    bool persistent = false, trains = true, available = false;
    std::int64_t fetched_for = never;  // most_recent_step_id_param_fetched_for
    std::vector<std::int64_t> uses{};  // steps of the trace
  };
  struct InTrace {
    std::int32_t parameter;
    std::int64_t step;
  };

  State& at(std::int32_t p) { return state_[static_cast<std::size_t>(p)]; }

  void index() {
    std::int64_t step = 0;
    for (const Hook& h : hooks_) {
      if (!h.fetches) continue;
      std::int64_t elements = 0;
      for (const auto p : parameters_[static_cast<std::size_t>(h.module)]) {
        at(p).uses.push_back(step);
        trace_.push_back({p, step});
        elements += at(p).elements;
      }
      passed_.push_back(passed_.back() + elements);
      ++step;
    }
    decided_.resize(hooks_.size());
  }

  MicroStepGathers micro_step(bool traced) {
    for (State& s : state_) s.fetched_for = never;
    next_ = 0, step_ = 0, live_ = 0;
    MicroStepGathers counted;
    for (std::size_t i = 0; i < hooks_.size(); ++i) {
      const Hook& h = hooks_[i];
      Gathers& g = h.backward ? counted.backward : counted.forward;
      const auto& own = parameters_[static_cast<std::size_t>(h.module)];
      if (h.fetches) {
        gather(own, g);
        if (traced) prefetch(own, g);
        ++step_;
      } else {
        release(traced ? decision(i, own) : own);
        for (auto m = h.frozen_begin; m < h.frozen_end; ++m) release_frozen(parameters_[static_cast<std::size_t>(m)]);
      }
    }
    return counted;
  }

  // All is partitioned before it; the persistent ones are gathered after it.
  void optimizer_step() {
    for (State& s : state_) s.available = s.persistent;
  }

  void gather(const std::vector<std::int32_t>& parameters, Gathers& g) {
    double tensors = 0;
    for (const auto p : parameters) {
      if (at(p).available) continue;
      at(p).available = true;
      live_ += at(p).elements;
      g.elements += static_cast<double>(at(p).elements);
      ++tensors;
    }
    g.tensors += tensors;
    g.calls += limits_.sequential ? tensors : (tensors > 0 ? 1 : 0);
    if (tensors > 1 && !limits_.sequential) g.copied_out += tensors;
  }

  // The module's own leave the queue; then as many as the bucket and the live limit allow. What is there already is
  // passed over, and kept for the step that it was passed over for.
  void prefetch(const std::vector<std::int32_t>& fetched, Gathers& g) {
    std::size_t expected = 0;
    for (const auto p : fetched) expected += at(p).fetched_for < step_;
    for (; expected > 0 && next_ < trace_.size(); --expected, ++next_) at(trace_[next_].parameter).fetched_for = trace_[next_].step;
    const auto bucket = limits_.sequential ? 1 : limits_.prefetch_bucket;  // one by one, whatever the bucket
    const auto most = std::min(limits_.max_live - live_, bucket);
    batch_.clear();
    for (std::int64_t elements = 0; next_ < trace_.size() && elements < most; ++next_) {
      State& s = at(trace_[next_].parameter);
      s.fetched_for = std::max(s.fetched_for, trace_[next_].step);
      if (s.available || std::find(batch_.begin(), batch_.end(), trace_[next_].parameter) != batch_.end()) continue;
      batch_.push_back(trace_[next_].parameter);
      elements += s.elements;
    }
    gather(batch_, g);
  }

  // __params_to_release: not what was fetched for a later step, nor what the trace uses within the reuse distance.
  const std::vector<std::int32_t>& decision(std::size_t hook, const std::vector<std::int32_t>& own) {
    if (!decided_[hook]) {
      auto& released = decided_[hook].emplace();
      for (const auto p : own) {
        const State& s = at(p);
        const auto next = std::lower_bound(s.uses.begin(), s.uses.end(), step_);
        const bool soon = next != s.uses.end() && passed(*next) - passed(step_) < limits_.max_reuse;
        if (!s.persistent && s.fetched_for <= step_ && !soon) released.push_back(p);
      }
    }
    return *decided_[hook];
  }

  void release(const std::vector<std::int32_t>& parameters) {
    for (const auto p : parameters) {
      State& s = at(p);
      if (s.available) live_ -= s.elements;
      s.available = false;
    }
  }
  void release_frozen(const std::vector<std::int32_t>& parameters) {
    for (const auto p : parameters) {
      if (!at(p).trains && !at(p).persistent) release({p});
    }
  }
  std::int64_t passed(std::int64_t step) const { return passed_[static_cast<std::size_t>(step)]; }

  Limits limits_;
  std::vector<Hook> hooks_;
  std::vector<std::vector<std::int32_t>> parameters_;  // by module
  std::vector<State> state_;
  std::vector<InTrace> trace_;
  std::vector<std::int64_t> passed_{0};  // elements before each step of the trace
  std::vector<std::optional<std::vector<std::int32_t>>> decided_;  // by hook
  std::vector<std::int32_t> batch_;
  std::size_t next_ = 0;                 // in trace_: the queue
  std::int64_t step_ = 0, live_ = 0;
};

MicroStepGathers replayed(const Run& run, const ModelShape& shape) {
  const auto& z = run.ds.zero;
  const auto owners = layer_modules(run.model, run.workload);
  const auto layers = static_cast<std::int32_t>(shape.layers);
  // Modules without parameters are spread evenly among those with.
  const auto per_layer = static_cast<std::int32_t>(
      layer_is_leaf(run, shape) ? 1 : std::max<std::size_t>(static_cast<std::size_t>(shape.modules_per_layer), owners.size()));

  // Module 0 is the embedding, then the layers' modules, the last norm and the head.
  const bool full = run.workload.finetune == Finetune::Full, adapted = run.workload.adapted();
  const auto first_trained = layers - static_cast<std::int32_t>(shape.trained_layers);
  const auto module_of = [&](std::int32_t layer, std::int32_t at) { return 1 + layer * per_layer + at; };
  std::vector<Replay::Module> modules(static_cast<std::size_t>(module_of(layers, 0)));
  modules.front() = {{shape.embedding_elements}, {full}};
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const auto at = static_cast<std::int32_t>((2 * i + 1) * static_cast<std::size_t>(per_layer) / (2 * owners.size()));
      auto& module = modules[static_cast<std::size_t>(module_of(layer, at))];
      const bool trains = adapted ? owners[i].adapter : layer >= first_trained;
      module.elements.insert(module.elements.end(), owners[i].elements.begin(), owners[i].elements.end());
      module.trains.insert(module.trains.end(), owners[i].elements.size(), trains);
    }
  }
  const auto norm = static_cast<std::int32_t>(modules.size()), head = norm + 1;
  modules.push_back({{run.model.hidden}, {!adapted}});
  modules.push_back(run.model.tied_embeddings ? Replay::Module{} : Replay::Module{{shape.head_elements}, {!adapted}});

  std::vector<Hook> hooks;
  const auto call = [&](std::int32_t module, bool backward) {
    hooks.push_back({module, true, backward});
    hooks.push_back({module, false, backward});
  };
  const auto forward = [&](std::int32_t layer, bool again) {
    for (std::int32_t at = 0; at < per_layer; ++at) call(module_of(layer, at), again);
  };
  call(0, false);
  for (std::int32_t layer = 0; layer < layers; ++layer) forward(layer, false);
  for (const auto module : {norm, head}) call(module, false);
  for (const auto module : {head, norm}) call(module, true);
  for (std::int32_t layer = layers - 1; layer >= layers - static_cast<std::int32_t>(shape.backward_layers); --layer) {
    // The layer's last module is fetched for its backward, whose first saved tensor asks for the recomputation.
    const auto last = module_of(layer, per_layer - 1);
    hooks.push_back({last, true, true});
    const bool again = run.workload.recompute.at(layer);
    if (again) forward(layer, true);
    hooks.push_back({last, false, true});
    if (again && run.versions.switches.recompute_frozen_release) {
      hooks.back().frozen_begin = module_of(layer, 0);
      hooks.back().frozen_end = module_of(layer, per_layer);
    }
    for (std::int32_t at = per_layer - 2; at >= 0; --at) call(module_of(layer, at), true);
  }
  if (full) call(0, true);

  Replay replay({z.stage3_prefetch_bucket_size, z.stage3_max_live_parameters, z.stage3_max_reuse_distance,
                 z.stage3_param_persistence_threshold, z.stage3_allgather_sequential},
                modules, std::move(hooks));
  if (run.model.tied_embeddings) replay.share(head, 0);
  return replay.steady(run.ds.gradient_accumulation_steps > 1);
}

}  // namespace

bool layer_is_leaf(const Run& run, const ModelShape& s) {
  const auto threshold = run.ds.zero.stage3_module_granularity_threshold;
  return threshold > 0 && s.layer_elements / std::max<std::int64_t>(s.modules_per_layer, 1) <= threshold;
}

MicroStepGathers micro_step_gathers(const Run& run, const ModelShape& shape) {
  if (run.ds.zero.stage < 3) return {};
  // All that replayed() reads.
  using Key = std::array<std::int64_t, 21>;
  const auto& z = run.ds.zero;
  const Key key = {z.stage3_prefetch_bucket_size, z.stage3_max_live_parameters, z.stage3_max_reuse_distance,
                   z.stage3_allgather_sequential, z.stage3_param_persistence_threshold, layer_is_leaf(run, shape),
                   shape.layers, shape.trained_layers, shape.backward_layers, run.versions.switches.recompute_frozen_release,
                   shape.layer_elements, shape.modules_per_layer,
                   shape.embedding_elements, run.model.hidden, run.model.intermediate, run.model.kv_width(),
                   run.workload.lora_rank, run.workload.recompute.every, run.ds.gradient_accumulation_steps > 1,
                   run.model.tied_embeddings, static_cast<std::int64_t>(run.workload.finetune)};
  constexpr std::size_t remembered = 4096;
  thread_local std::map<Key, MicroStepGathers> known;
  if (const auto it = known.find(key); it != known.end()) return it->second;
  if (known.size() >= remembered) known.clear();
  return known[key] = replayed(run, shape);
}

}  // namespace zplan
