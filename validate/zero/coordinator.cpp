#include "zero/coordinator.h"

#include <algorithm>
#include <set>

namespace zplan::trainer {
namespace {

constexpr std::int64_t kNever = -10'000'000'000;  // step before any

}  // namespace

Coordinator::Coordinator(const ZeroConfig& zero, Communicator& communicator, at::Device device,
                         const std::unordered_map<const Parameter*, Partitioned*>& partitioned)
    : zero_(zero),
      communicator_(communicator),
      device_(device),
      partitioned_(partitioned),
      gather_lane_(zero.overlap_comm ? Lane::side(device) : Lane::current(device)) {}

Coordinator::Set Coordinator::parameters_of(const Module& module) const {
  Set set;
  for (const Parameter* p : module.own) set.push_back(partitioned_.at(p));
  return set;
}

void Coordinator::reset_step() {
  settle_in_flight();
  if (trace_ == Trace::Record) {
    uses_.clear();
    for (std::size_t s = 0; s < order_.size(); ++s) {
      for (Partitioned* p : parameters_of(*order_[s]))
        uses_.push_back({p, static_cast<std::int64_t>(s)});
    }
    trace_ = Trace::Complete;
  } else if (trace_ == Trace::Invalid) {
    trace_ = Trace::Record;
  }
  queue_.assign(uses_.begin(), uses_.end());
  fetched_for_.clear();
  step_ = 0;
  available_ = 0;
}

// Prefetched parameters that nothing used: they arrive and go.
void Coordinator::settle_in_flight() {
  const OnLane lane(gather_lane_);
  while (!in_flight_.empty()) {
    const auto [parameter, handle] = *in_flight_.begin();
    in_flight_.erase(in_flight_.begin());
    handle->wait();
    release_parameter(*parameter);
  }
}

void Coordinator::invalidate() {
  trace_ = Trace::Invalid;
  order_.clear();
  uses_.clear();
  queue_.clear();
  fetched_for_.clear();
  decided_.clear();
  settle_in_flight();
}

void Coordinator::follow_trace(const Module& module) {
  if (trace_ == Trace::Record) {
    order_.push_back(&module);
  } else if (trace_ == Trace::Complete && (step_ >= static_cast<std::int64_t>(order_.size()) ||
                                           order_[static_cast<std::size_t>(step_)] != &module)) {
    invalidate();
  }
}

void Coordinator::fetch(const Module& module) {
  follow_trace(module);
  const Set needed = parameters_of(module);
  gather(needed);
  for (Partitioned* p : needed) {
    p->active_modules.insert(module.id);
    const auto at = in_flight_.find(p);
    if (at == in_flight_.end()) continue;
    const OnLane lane(gather_lane_);
    ongoing_.admit();
    const std::shared_ptr<Gather> handle = std::move(at->second);
    in_flight_.erase(at);
    handle->wait();
    ongoing_.queued(gather_lane_);
  }
  Lane::current(device_).wait_for(gather_lane_);
  if (trace_ == Trace::Complete) {
    take_from_queue(needed);
    prefetch();
  }
  ++step_;
}

void Coordinator::gather(const Set& parameters) {
  Set away;
  for (Partitioned* p : parameters) {
    if (p->status == Partitioned::Status::Away) away.push_back(p);
  }
  if (away.empty()) return;
  std::sort(away.begin(), away.end(),
            [](auto* a, auto* b) { return a->parameter->id < b->parameter->id; });
  for (const Partitioned* p : away) available_ += p->parameter->numel;
  const OnLane lane(gather_lane_);
  const auto way = zero_.stage3_allgather_sequential ? Gather::Way::EachAlone : Gather::Way::Together;
  const auto handle = std::make_shared<Gather>(away, communicator_, device_, way);
  for (Partitioned* p : away) in_flight_[p] = handle;
}

// What this module uses needs no prefetch any more. Earlier prefetches may have taken it off the
// queue already.
void Coordinator::take_from_queue(const Set& parameters) {
  std::set<Partitioned*> expected, taken;
  for (Partitioned* p : parameters) {
    const auto at = fetched_for_.find(p);
    if ((at == fetched_for_.end() ? kNever : at->second) < step_) expected.insert(p);
  }
  while (!queue_.empty() && taken.size() < expected.size()) {
    const Use use = queue_.front();
    queue_.pop_front();
    fetched_for_[use.parameter] = use.step;
    taken.insert(use.parameter);
  }
  if (taken != expected) invalidate();  // DeepSpeed raises here; recording again costs two passes
}

void Coordinator::prefetch() {
  // engine.py: gathered one by one, the next parameter alone is prefetched, whatever the bucket.
  const std::int64_t bucket =
      zero_.stage3_allgather_sequential ? 1 : zero_.stage3_prefetch_bucket_size;
  if (trace_ != Trace::Complete || bucket <= 0) return;
  const std::int64_t room = std::min(zero_.stage3_max_live_parameters - available_, bucket);
  Set wanted;
  std::int64_t elements = 0;
  while (!queue_.empty() && elements < room) {
    const Use use = queue_.front();
    queue_.pop_front();
    const bool here = use.parameter->status != Partitioned::Status::Away ||
                      std::find(wanted.begin(), wanted.end(), use.parameter) != wanted.end();
    auto [at, fresh] = fetched_for_.try_emplace(use.parameter, kNever);
    at->second = std::max(at->second, use.step);
    if (here) continue;
    wanted.push_back(use.parameter);
    elements += use.parameter->parameter->numel;
  }
  gather(wanted);
}

void Coordinator::release(const Module& module) {
  const Set all = parameters_of(module);
  const std::vector<Partitioned*>& chosen = trace_ == Trace::Complete ? to_release(module) : all;
  for (Partitioned* p : all) {
    p->active_modules.erase(module.id);
    if (std::find(chosen.begin(), chosen.end(), p) != chosen.end()) release_parameter(*p);
  }
}

const std::vector<Partitioned*>& Coordinator::to_release(const Module& module) {
  const auto [at, fresh] = decided_.try_emplace({module.id, step_});
  if (!fresh) return at->second;
  std::set<Partitioned*> chosen;
  for (Partitioned* p : parameters_of(module)) {
    const auto covered = fetched_for_.find(p);
    const bool skipped_by_prefetch = covered != fetched_for_.end() && covered->second > step_;
    if (!p->persistent && !skipped_by_prefetch) chosen.insert(p);
  }
  std::int64_t distance = 0;
  for (auto s = static_cast<std::size_t>(step_);
       s < order_.size() && distance < zero_.stage3_max_reuse_distance; ++s) {
    for (Partitioned* p : parameters_of(*order_[s])) {
      chosen.erase(p);
      distance += p->parameter->numel;
    }
  }
  at->second.assign(chosen.begin(), chosen.end());
  return at->second;
}

void Coordinator::release_parameter(Partitioned& p) {
  if (p.status != Partitioned::Status::Here || !p.active_modules.empty()) return;
  p.free();
  available_ -= p.parameter->numel;
}

void Coordinator::release_leftovers() {
  for (const auto& [parameter, p] : partitioned_) {
    if (p->active_modules.empty()) continue;
    p->active_modules.clear();
    if (!p->persistent || trace_ != Trace::Complete) release_parameter(*p);
  }
}

void Coordinator::release_all() {
  settle_in_flight();
  Lane::current(device_).wait_for(gather_lane_);
  for (const auto& [parameter, p] : partitioned_) {
    p->active_modules.clear();
    release_parameter(*p);
  }
}

}  // namespace zplan::trainer
