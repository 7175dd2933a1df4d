#include "zero/slice_reducer.h"

#include <algorithm>

namespace zplan::trainer {

SliceReducer::SliceReducer(const EngineSetup& setup,
                           const std::vector<std::unique_ptr<Partitioned>>& parameters,
                           std::vector<SliceTarget> targets)
    : setup_(setup),
      parameters_(parameters),
      targets_(std::move(targets)),
      limit_(setup.ds.zero.reduce_bucket_size),
      lane_(setup.ds.zero.overlap_comm ? Lane::side(setup.device) : Lane::current(setup.device)),
      bucket_(at::empty(
          {limit_},
          at::TensorOptions().dtype(scalar_type(setup.ds.precision)).device(setup.device))) {}

void SliceReducer::add(std::size_t parameter, bool first_micro_step, bool boundary) {
  first_micro_step_ = first_micro_step;
  boundary_ = boundary;
  Parameter& p = *parameters_[parameter]->parameter;
  if (filled_ + p.numel > limit_ && !pending_.empty()) flush();
  lane_.wait_for(Lane::current(setup_.device));
  if (filled_ + p.numel <= limit_) {
    const OnLane lane(lane_);
    at::Tensor place = bucket_.narrow(0, filled_, p.numel).view(p.shape);
    place.copy_(p.value.grad(), /*non_blocking=*/true);
    lane_.keep(p.value.grad());
    p.value.mutable_grad() = place;
  }  // else: it keeps its own storage until the next flush
  filled_ += p.numel;
  pending_.push_back(parameter);
}

void SliceReducer::flush() {
  if (pending_.empty()) return;
  ongoing_.admit();
  const OnLane lane(lane_);
  std::sort(pending_.begin(), pending_.end());  // the order of ids
  const std::vector<at::Tensor> slices = scatter();
  for (std::size_t k = 0; k < pending_.size(); ++k) {
    Parameter& p = *parameters_[pending_[k]]->parameter;
    deliver(pending_[k], slices[k]);
    lane_.keep(p.value.grad());
    p.value.mutable_grad().reset();
  }
  pending_.clear();
  filled_ = 0;
  ongoing_.queued(lane_);
}

// CC:reduce_scatter_coalesced. In place for one divisible tensor, otherwise in a copy ordered by
// rank.
std::vector<at::Tensor> SliceReducer::scatter() {
  const std::int64_t ranks = setup_.communicator->size();
  std::int64_t mine = 0;
  for (const std::size_t i : pending_) mine += parameters_[i]->slice_numel;
  at::Tensor all;
  const Parameter& first = *parameters_[pending_.front()]->parameter;
  if (pending_.size() == 1 && first.numel % ranks == 0) {
    all = first.value.grad().view(-1);
  } else {
    std::vector<at::Tensor> pieces;
    for (std::int64_t r = 0; r < ranks; ++r) {
      for (const std::size_t i : pending_) {
        const at::Tensor flat = parameters_[i]->parameter->value.grad().view(-1);
        const std::int64_t size = parameters_[i]->slice_numel,
                           from = std::min(r * size, flat.numel());
        const std::int64_t n = std::min(size, flat.numel() - from);
        if (n > 0) pieces.push_back(flat.narrow(0, from, n));
        if (n < size) pieces.push_back(at::zeros({size - n}, flat.options()));
      }
    }
    all = at::cat(pieces);
  }
  all.div_(static_cast<double>(ranks));
  at::Tensor own = all.narrow(0, setup_.communicator->rank() * mine, mine);
  setup_.communicator->reduce_scatter(own, all);
  std::vector<at::Tensor> slices;
  std::int64_t offset = 0;
  for (const std::size_t i : pending_) {
    slices.push_back(own.narrow(0, offset, parameters_[i]->slice_numel));
    offset += parameters_[i]->slice_numel;
  }
  return slices;
}

void SliceReducer::deliver(std::size_t parameter, at::Tensor slice) {
  const Partitioned& p = *parameters_[parameter];
  if (setup_.communicator->rank() * p.slice_numel >= p.parameter->numel)
    return;  // all of it is padding
  const SliceTarget& target = targets_[parameter];
  at::Tensor kept = target.accumulated;
  const bool on_host = kept.device() != slice.device() || target.step.defined();
  if (first_micro_step_) {
    kept.copy_(slice, /*non_blocking=*/true);
    if (on_host) kept = kept.to(slice.device(), /*non_blocking=*/true);
  } else if (!on_host) {
    kept.add_(slice);
  } else {  // adding on the host is slow: there and back again
    at::Tensor here = kept.to(slice.device(), /*non_blocking=*/true);
    here.add_(slice);
    kept.copy_(here, /*non_blocking=*/true);
    kept = here;
  }
  if (target.step.defined() && boundary_) {
    norms_.push_back(kept.to(at::kDouble).norm(2));
    at::Tensor step = target.step;
    step.copy_(kept.to(at::kFloat), /*non_blocking=*/true);
  }
}

void SliceReducer::finish() {
  flush();
  lane_.synchronize();
}

at::Tensor SliceReducer::take_squared_norm() {
  at::Tensor sum = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(setup_.device));
  for (const at::Tensor& norm : norms_) sum.add_(norm.square());
  norms_.clear();
  return sum;
}

}  // namespace zplan::trainer
