#include "step/coordinator.h"

#include <algorithm>
#include <utility>

#include "step/autocast.h"
#include "units/units.h"

namespace zplan {
namespace {

template <class T>
bool contains(const std::vector<T>& v, const T& x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// Elements as ZeRO-3 sees them: 4-bit weights are stored as 16-bit elements (bnb_4bit_quant_storage).
std::int64_t stored_elements(const Parameter& p) { return p.quantized ? ceil_div(p.numel, 4) : p.numel; }

// ds_id by parameter. zero.Init numbers a model's weights as they are built, the adapters come afterwards.
std::vector<std::int32_t> ds_ids(const Run& run, const std::vector<Parameter>& parameters) {
  std::vector<std::int32_t> ids(parameters.size());
  std::int32_t next = 0;
  for (const bool adapters : {false, true}) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (run.workload.zero_init ? parameters[i].adapter() == adapters : !adapters) ids[i] = next++;
    }
  }
  return ids;
}

}  // namespace

Coordinator::Coordinator(const Run& run, const std::vector<Parameter>& parameters, const Modules& modules,
                         Recorder& recorder, std::vector<std::int64_t> widths)
    : run_(run), modules_(modules), recorder_(recorder), world_(run.world_size),
      stream_(run.ds.zero.overlap_comm ? kGather : kCompute),
      single_label_(recorder.label("gathered parameter", Component::GatheredParameters)),
      flat_label_(recorder.label("flat buffer of a coalesced gather", Component::GatheredParameters)),
      copy_label_(recorder.label("gathered parameter, copied out of its flat buffer", Component::GatheredParameters)),
      partition_label_(recorder.label("partition on its way from the host", Component::GatheredParameters)),
      secondary_label_(recorder.label("hpZ secondary partition", Component::Parameters)),
      trace_label_(recorder.label("trace compared with the other ranks'", Component::Workspace)),
      persistent_label_(recorder.label("persistent parameter", Component::GatheredParameters)) {
  ds_id_ = ds_ids(run, parameters);
  for (const auto& m : modules.all) own_.push_back(m.parameters);
  std::int64_t persistent = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    State s;
    s.numel = stored_elements(parameters[i]);
    s.partition = ceil_div(s.numel, world_);
    s.width = widths[i];
    s.sent_width = sent_in_autocast_dtype(run, parameters[i]) ? 2 : s.width;
    s.trainable = parameters[i].trainable;
    s.routes = parameters[i].owner == Owner::Router;
    s.quantized = parameters[i].quantized;
    s.offloaded = run.ds.zero.offload_param.device != OffloadDevice::None;
    // parameter_offload.py, mark_persistent_parameters
    if (s.numel + persistent <= run.ds.zero.stage3_model_persistence_threshold &&
        s.numel <= run.ds.zero.stage3_param_persistence_threshold) {
      s.persistent = true;
      persistent += s.numel;
    }
    state_.push_back(std::move(s));
  }
}

void Coordinator::sort_by_id(std::vector<std::int32_t>& parameters) const {
  std::sort(parameters.begin(), parameters.end(), [this](std::int32_t a, std::int32_t b) {
    return ds_id_[static_cast<std::size_t>(a)] < ds_id_[static_cast<std::size_t>(b)];
  });
}

void Coordinator::use_external(std::int32_t parameter, std::int32_t module) {
  auto& s = state_[static_cast<std::size_t>(parameter)];
  if (s.status != Status::NotAvailable) return;
  auto& known = own_[static_cast<std::size_t>(module)];
  if (!contains(known, parameter)) known.push_back(parameter);
  if (world_ > 1) {
    s.block = recorder_.allocate(s.partition * world_ * s.width, single_label_, parameter);
    if (!run_.versions.switches.single_gather_in_place) {  // PP:_allgather_params copies it out of what it gathered
      recorder_.free(std::exchange(s.block, recorder_.allocate(s.numel * s.width, single_label_, parameter)));
    }
  }
  s.status = Status::Available;
}

void Coordinator::reset_step() {
  clean_inflight();
  // assert_ints_same_as_other_ranks: the list if there is one, since 0.17.6 its length before it, as int64 on the device.
  const auto compare = [&](std::size_t length) {
    if (run_.versions.switches.trace_lengths_compared) recorder_.free(recorder_.allocate(8, trace_label_));
    if (length > 0) recorder_.free(recorder_.allocate(8 * static_cast<std::int64_t>(length), trace_label_));
  };
  if (mode_ != TraceMode::Complete) compare(module_order_.size());
  if (mode_ == TraceMode::Record) {
    parameter_order_.clear();
    for (std::size_t step = 0; step < module_order_.size(); ++step) {
      auto own_parameters = own(module_order_[step]);
      sort_by_id(own_parameters);
      for (const auto p : own_parameters) parameter_order_.push_back({p, static_cast<std::int64_t>(step)});
    }
    compare(parameter_order_.size());
    compare(parameter_order_.size());
    index_trace();
    mode_ = TraceMode::Complete;
  } else if (mode_ == TraceMode::Invalid) {
    module_order_.clear();
    mode_ = TraceMode::Record;
  }
  for (auto& s : state_) s.most_recent_step = kNever;
  queue_ = 0;
  step_id_ = 0;
  available_ = 0;
}

void Coordinator::fetch(std::int32_t module, bool forward, bool recompute) {
  if (mode_ == TraceMode::Record) {
    module_order_.push_back(module);
  } else if (mode_ == TraceMode::Complete &&
             (static_cast<std::size_t>(step_id_) >= module_order_.size() ||
              module_order_[static_cast<std::size_t>(step_id_)] != module)) {
    // trace_prologue: the order changed (an evaluation pass, say): the trace is thrown away.
    mode_ = TraceMode::Invalid;
    module_order_.clear();
    parameter_order_.clear();
    queue_ = 0;
    clean_inflight();
  }
  const double hook = forward ? Clock::kForwardHook : Clock::kBackwardHook;
  recorder_.clock()->host_works(Clock::kBeforeGather * hook);
  if (!forward && !contains(active_backward_, module)) active_backward_.push_back(module);

  const auto& fetched = own(module);
  all_gather(fetched);
  // bitsandbytes' MatMul4Bit keeps the weight as an attribute of its node, which neither checkpointing nor the end of the
  // node's backward drops. A reentrant region has no graph in its forward.
  const auto layer = modules_.all[static_cast<std::size_t>(module)].layer;
  const bool graph = forward && !recompute &&
                     !(run_.workload.recompute.impl == RecomputeImpl::Reentrant && run_.workload.recompute.at(layer));
  for (const auto p : fetched) {
    auto& s = state_[static_cast<std::size_t>(p)];
    s.in_graph |= graph && s.quantized;
    if (!contains(s.active, module)) s.active.push_back(module);
    if (forward && recompute && !active_backward_.empty() && !s.trainable &&
        run_.versions.switches.recompute_frozen_release) {
      // update_recompute_parameters: the backward module that asked for the recomputation holds it too.
      const auto owner = active_backward_.back();
      auto& owned = recompute_parameters_[owner];
      if (!contains(owned, p)) owned.push_back(p);
      if (!contains(s.active, owner)) s.active.push_back(owner);
    }
    wait(p);
  }
  if (mode_ == TraceMode::Complete) prefetch(fetched);
  recorder_.clock()->host_works((1 - Clock::kBeforeGather) * hook);
  ++step_id_;
}

void Coordinator::clean_inflight() {
  for (std::size_t p = 0; p < state_.size(); ++p) {
    if (state_[p].handle < 0) continue;
    wait(static_cast<std::int32_t>(p));
    release_parameter(static_cast<std::int32_t>(p));
  }
}

void Coordinator::prefetch(const std::vector<std::int32_t>& fetched) {
  // Parameters of this module leave the queue, so that they are not prefetched later.
  std::size_t expected = 0;
  for (const auto p : fetched) expected += state_[static_cast<std::size_t>(p)].most_recent_step < step_id_;
  for (std::size_t n = 0; n < expected && queue_ < parameter_order_.size(); ++n, ++queue_) {
    const auto& t = parameter_order_[queue_];
    state_[static_cast<std::size_t>(t.parameter)].most_recent_step = t.step_id;
  }
  const auto& zero = run_.ds.zero;
  const auto bucket = zero.stage3_allgather_sequential ? 1 : zero.stage3_prefetch_bucket_size;
  if (bucket <= 0) return;
  const auto most = std::min(zero.stage3_max_live_parameters - available_, bucket);
  std::vector<std::int32_t> batch;
  std::int64_t numel = 0;
  while (queue_ < parameter_order_.size() && numel < most) {
    const auto& t = parameter_order_[queue_++];
    auto& s = state_[static_cast<std::size_t>(t.parameter)];
    s.most_recent_step = std::max(s.most_recent_step, t.step_id);
    if (s.status != Status::NotAvailable || contains(batch, t.parameter)) continue;
    batch.push_back(t.parameter);
    numel += s.numel;
  }
  if (numel > 0) all_gather(batch);
}

void Coordinator::all_gather(const std::vector<std::int32_t>& parameters) {
  std::vector<std::int32_t> primary, secondary;
  for (const auto p : parameters) {
    const auto& s = state_[static_cast<std::size_t>(p)];
    if (s.status != Status::NotAvailable) continue;
    available_ += s.numel;
    (s.secondary >= 0 ? secondary : primary).push_back(p);
  }
  if (!secondary.empty()) gather_group(secondary, true);
  if (!primary.empty()) gather_group(primary, false);
}

void Coordinator::gather_group(const std::vector<std::int32_t>& unsorted, bool secondary) {
  auto parameters = unsorted;
  sort_by_id(parameters);
  const auto id = static_cast<std::int32_t>(handles_.size());
  Handle handle;
  handle.waiting = static_cast<std::int64_t>(parameters.size());
  const auto ranks = secondary ? run_.ds.zero.zero_hpz_partition_size : world_;
  const auto padded = [&](const State& s) { return ceil_div(s.numel, ranks) * ranks; };
  ++gathers_;
  for (const auto p : parameters) {
    state_[static_cast<std::size_t>(p)].status = Status::Inflight;
    state_[static_cast<std::size_t>(p)].handle = id;
  }
  if (world_ == 1) {
    // _no_gather_coalesced: param.data is the partition; from the host it is copied.
    for (const auto p : parameters) {
      auto& s = state_[static_cast<std::size_t>(p)];
      if (s.offloaded) s.block = recorder_.allocate(s.numel * s.width, single_label_, p, stream_);
    }
  } else if (run_.ds.zero.stage3_allgather_sequential || parameters.size() == 1) {
    for (const auto p : parameters) {
      auto& s = state_[static_cast<std::size_t>(p)];
      if (s.sent_width != s.width) {
        handle.narrow.emplace_back(p, recorder_.allocate(padded(s) * s.sent_width, flat_label_, p, stream_));
        recorder_.free(recorder_.allocate(s.partition * s.sent_width, partition_label_, p, stream_));
        continue;
      }
      s.block = recorder_.allocate(padded(s) * s.width, single_label_, p, stream_);
      // torch's NCCL process group holds what an all-gather sends until it is waited for (ProcessGroupNCCL.hpp,
      // TensorShelf); the fake one of a rank alone does not.
      if (!s.offloaded) continue;
      const auto brought = recorder_.allocate(s.partition * s.width, partition_label_, p, stream_);
      if (run_.stand_in) recorder_.free(brought);
      else handle.sent.push_back(brought);
    }
  } else {
    // One flat buffer per dtype, then a copy of each parameter at the first wait.
    for (const std::int64_t width : {2, 4}) {
      Flat flat{-1, {}};
      std::int64_t elements = 0;
      for (const auto p : parameters) {
        const auto& s = state_[static_cast<std::size_t>(p)];
        if (s.sent_width != width) continue;
        flat.parameters.push_back(p);
        elements += padded(s);
      }
      if (flat.parameters.empty()) continue;
      flat.block = recorder_.allocate(elements * width, flat_label_, -1, stream_);
      std::vector<BlockId> copies;
      for (const auto p : flat.parameters) {
        const auto& s = state_[static_cast<std::size_t>(p)];
        if (s.offloaded || s.sent_width != s.width) copies.push_back(recorder_.allocate(s.partition * s.sent_width, partition_label_, p, stream_));
      }
      for (auto it = copies.rbegin(); it != copies.rend(); ++it) recorder_.free(*it);
      handle.flats.push_back(std::move(flat));
    }
  }
  handles_.push_back(std::move(handle));
  recorder_.clock()->host_works(Clock::kGather);
}

void Coordinator::wait(std::int32_t parameter) {
  auto& first = state_[static_cast<std::size_t>(parameter)];
  if (first.handle < 0) return;
  auto& handle = handles_[static_cast<std::size_t>(std::exchange(first.handle, -1))];
  if (!handle.complete) {
    for (const auto& flat : handle.flats) {
      for (const auto p : flat.parameters) {
        auto& s = state_[static_cast<std::size_t>(p)];
        s.block = recorder_.allocate(s.numel * s.width, copy_label_, p, stream_);
        s.status = Status::Available;
      }
    }
    for (const auto& [p, gathered] : handle.narrow) {
      auto& s = state_[static_cast<std::size_t>(p)];
      s.block = recorder_.allocate(s.numel * s.width, single_label_, p, stream_);
      recorder_.free(gathered);
      s.status = Status::Available;
    }
    handle.narrow.clear();
    for (const auto block : handle.sent) recorder_.free(block);
    handle.sent.clear();
    handle.complete = true;
  }
  first.status = Status::Available;
  recorder_.clock()->waits(kCompute, stream_);
  if (--handle.waiting == 0) {
    for (const auto& flat : handle.flats) recorder_.free(flat.block);
    handle.flats.clear();
  }
}

void Coordinator::release_parameter(std::int32_t parameter, bool saved) {
  auto& s = state_[static_cast<std::size_t>(parameter)];
  if (s.status != Status::Available || !s.active.empty()) return;
  make_secondary(parameter);
  if (s.block >= 0) {
    recorder_.record_stream(s.block, kCompute);
    if (std::exchange(s.in_graph, false)) graph_.push_back({parameter, std::exchange(s.block, -1)});
    else if (saved) s.held = std::exchange(s.block, -1);
    else recorder_.free(std::exchange(s.block, -1));
  }
  s.status = Status::NotAvailable;
  available_ -= s.numel;
}

void Coordinator::make_secondary(std::int32_t parameter) {
  auto& s = state_[static_cast<std::size_t>(parameter)];
  const auto h = run_.ds.zero.zero_hpz_partition_size;
  if (h <= 1 || s.secondary >= 0) return;
  if (s.offloaded) return;  // the secondary copy is placed on the offload device
  s.secondary = recorder_.allocate(ceil_div(ceil_div(s.numel, world_) * world_, h) * s.width, secondary_label_, parameter);
}

void Coordinator::drop_graph() {
  // From the loss down.
  std::sort(graph_.begin(), graph_.end(), [](const Held& a, const Held& b) { return a.parameter > b.parameter; });
  for (const auto& held : graph_) recorder_.free(held.block);
  graph_.clear();
}

void Coordinator::drop_secondary() {
  for (auto& s : state_) {
    if (s.secondary >= 0) recorder_.free(std::exchange(s.secondary, -1));
  }
}

// A module's releasable parameters at a step of the trace; decided once (lru_cache on __params_to_release).
const std::vector<std::int32_t>& Coordinator::to_release(std::int32_t module, std::int64_t step_id) {
  const auto at = static_cast<std::size_t>(step_id);
  if (release_cache_.size() <= at) release_cache_.resize(at + 1);
  auto& decisions = release_cache_[at];
  for (const auto& decision : decisions) {
    if (decision.module == module) return decision.parameters;
  }
  // __params_to_release walks the trace until the reuse distance is passed; lru_cache keeps what it decided.
  const auto end = std::lower_bound(traversed_.begin() + step_id, traversed_.end(),
                                    traversed_[at] + run_.ds.zero.stage3_max_reuse_distance);
  const auto walked = std::min<std::ptrdiff_t>(end - traversed_.begin(), std::ssize(module_order_)) - step_id;
  recorder_.clock()->host_works(Clock::kTracedModule * static_cast<double>(walked));
  Release decision{module, {}};
  for (const auto p : own(module)) {
    const auto& s = state_[static_cast<std::size_t>(p)];
    if (!s.persistent && s.most_recent_step <= step_id && !used_again(module, p, step_id)) decision.parameters.push_back(p);
  }
  decisions.push_back(std::move(decision));
  return decisions.back().parameters;
}

// Whether the parameter occurs within max_reuse_distance elements of the trace from step_id on. The sub-trees are
// walked if the module being released is a leaf; a leaf met on the way owns nothing itself.
bool Coordinator::used_again(std::int32_t module, std::int32_t parameter, std::int64_t step_id) const {
  const auto limit = run_.ds.zero.stage3_max_reuse_distance;
  if (!modules_.all[static_cast<std::size_t>(module)].leaf) {
    const auto& uses = uses_[static_cast<std::size_t>(parameter)];
    const auto next = std::lower_bound(uses.begin(), uses.end(), step_id);
    if (next == uses.end()) return false;
    return traversed_[static_cast<std::size_t>(*next)] - traversed_[static_cast<std::size_t>(step_id)] < limit;
  }
  std::int64_t traversed = 0;
  for (auto m = static_cast<std::size_t>(step_id); m < module_order_.size() && traversed < limit; ++m) {
    for (const auto p : modules_.all[static_cast<std::size_t>(module_order_[m])].subtree) {
      if (p == parameter) return true;
      traversed += state_[static_cast<std::size_t>(p)].numel;
    }
  }
  return false;
}

// Where each parameter is used and how many elements the trace has passed before each step.
void Coordinator::index_trace() {
  uses_.assign(state_.size(), {});
  traversed_.assign(1, 0);
  for (std::size_t step = 0; step < module_order_.size(); ++step) {
    std::int64_t elements = 0;
    if (!modules_.all[static_cast<std::size_t>(module_order_[step])].leaf) {
      for (const auto p : own(module_order_[step])) {
        uses_[static_cast<std::size_t>(p)].push_back(static_cast<std::int64_t>(step));
        elements += state_[static_cast<std::size_t>(p)].numel;
      }
    }
    traversed_.push_back(traversed_.back() + elements);
  }
}

void Coordinator::drop_held(std::int32_t module) {
  const auto one = modules_.all[static_cast<std::size_t>(module)].reads;
  for (const auto p : one >= 0 ? std::vector<std::int32_t>{one} : own(module)) {
    auto& s = state_[static_cast<std::size_t>(p)];
    if (s.held >= 0) recorder_.free(std::exchange(s.held, -1));
  }
}

void Coordinator::release(std::int32_t module, bool forward, Keeps keeps) {
  recorder_.clock()->host_works(forward ? Clock::kForwardHook : Clock::kBackwardHook);
  const auto& decided = mode_ == TraceMode::Complete ? to_release(module, step_id_) : own(module);
  if (forward || recompute_parameters_.empty()) {
    if (!forward) active_backward_.erase(std::remove(active_backward_.begin(), active_backward_.end(), module), active_backward_.end());
    release_all_of(module, own(module), decided, keeps);
    return;
  }
  auto releasable = decided;
  auto parameters = own(module);
  {
    const auto it = recompute_parameters_.find(module);
    if (it != recompute_parameters_.end()) {
      for (const auto p : it->second) {
        if (!persistent(p) && !contains(releasable, p)) releasable.push_back(p);
        if (!contains(parameters, p)) parameters.push_back(p);
      }
      recompute_parameters_.erase(it);
    }
    active_backward_.erase(std::remove(active_backward_.begin(), active_backward_.end(), module), active_backward_.end());
  }
  release_all_of(module, parameters, releasable, keeps);
}

void Coordinator::release_all_of(std::int32_t module, const std::vector<std::int32_t>& parameters,
                                 const std::vector<std::int32_t>& releasable, Keeps keeps) {
  for (const auto p : parameters) {
    auto& active = state_[static_cast<std::size_t>(p)].active;
    active.erase(std::remove(active.begin(), active.end(), module), active.end());
    // A graph recomputed without reentry saves a detached alias of each trainable weight: its storage outlives the release
    // (torch/utils/checkpoint.py, _recomputation_hook).
    const auto& s = state_[static_cast<std::size_t>(p)];
    // Above adapters a frozen weight's view is saved too: the input's gradient asks for it.
    const bool views = keeps == Keeps::Views && (s.trainable || run_.workload.adapted()) && !s.routes;
    const bool saved = keeps == Keeps::Trained ? s.trainable : views;
    if (contains(releasable, p)) release_parameter(p, saved);
  }
}

void Coordinator::release_backward_leftovers() {
  while (!active_backward_.empty()) {
    const auto module = active_backward_.back();
    active_backward_.pop_back();
    auto parameters = own(module);
    const auto it = recompute_parameters_.find(module);
    if (it != recompute_parameters_.end()) {
      parameters.insert(parameters.end(), it->second.begin(), it->second.end());
      recompute_parameters_.erase(it);
    }
    for (const auto p : parameters) {
      auto& active = state_[static_cast<std::size_t>(p)].active;
      active.erase(std::remove(active.begin(), active.end(), module), active.end());
      if (!persistent(p)) release_parameter(p);
    }
  }
}

void Coordinator::release_all() {
  for (std::size_t p = 0; p < state_.size(); ++p) {
    wait(static_cast<std::int32_t>(p));
    state_[p].active.clear();
    release_parameter(static_cast<std::int32_t>(p));
  }
  active_backward_.clear();
  recompute_parameters_.clear();
}

void Coordinator::gather_persistent(bool on_compute_stream) {
  // _allgather_params_coalesced: with offload_param first the copies of all partitions, then the full tensors.
  const auto stream = on_compute_stream ? kCompute : stream_;
  std::vector<BlockId> copies;
  for (auto& s : state_) {
    if (s.persistent && s.offloaded) copies.push_back(recorder_.allocate(s.partition * s.width, partition_label_, -1, stream));
  }
  for (std::size_t p = 0; p < state_.size(); ++p) {
    auto& s = state_[p];
    if (!s.persistent || s.status == Status::Available) continue;
    if (world_ > 1) s.block = recorder_.allocate(s.partition * world_ * s.width, persistent_label_, static_cast<std::int64_t>(p), stream);
    s.status = Status::Available;
  }
  // The list goes from its end; the loop's variable still holds the last one.
  for (std::size_t i = copies.size() - 1; !copies.empty() && i-- > 0;) recorder_.free(copies[i]);
  if (!copies.empty()) recorder_.free(copies.back());
}

}  // namespace zplan
