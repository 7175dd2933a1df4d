#include "zero/bucket_reducer.h"

namespace zplan::trainer {

BucketReducer::BucketReducer(const EngineSetup& setup, const ParameterList& parameters,
                             const FlatLayout& layout, Owned owned)
    : setup_(setup),
      parameters_(parameters),
      layout_(layout),
      owned_(std::move(owned)),
      limit_(setup.ds.zero.reduce_bucket_size),
      overlap_(setup.ds.zero.overlap_comm),
      reduction_(overlap_ ? Lane::side(setup.device) : Lane::current(setup.device)) {}

void BucketReducer::allocate() {
  if (buffers_[0].defined()) return;
  const auto options =
      at::TensorOptions().dtype(scalar_type(setup_.ds.precision)).device(setup_.device);
  buffers_[0] = at::empty({limit_}, options);
  if (overlap_) buffers_[1] = at::empty({limit_}, options);
}

void BucketReducer::add(std::size_t parameter) {
  Parameter& p = *parameters_[parameter];
  const Lane compute = Lane::current(setup_.device);
  allocate();
  if (filled_ + p.numel > limit_) {
    flush();
    if (overlap_) {
      reduction_.wait_for(compute);
      compute.wait_for(reduction_);
      current_ = 1 - current_;
    }
  }
  if (p.numel <= limit_) {
    at::Tensor place = buffers_[current_].narrow(0, filled_, p.numel);
    place.copy_(p.value.grad().view(-1));
    p.value.mutable_grad() = place.view(p.shape);
  }  // else: it stays in its own storage and is reduced there when the next one comes
  filled_ += p.numel;
  pending_.push_back(parameter);
}

void BucketReducer::average(const at::Tensor& gradients, std::int64_t elements) {
  at::Tensor all = gradients;
  all.div_(static_cast<double>(setup_.communicator->size()));
  // Neighbouring pieces of one owner are one piece; with one piece flatten is a view, otherwise a
  // copy.
  struct Piece {
    int owner;
    std::int64_t begin, numel;
  };
  std::vector<Piece> pieces;
  std::int64_t at = 0;
  for (const std::size_t i : pending_) {
    for (std::int64_t done = 0; done < parameters_[i]->numel;) {
      const std::int64_t element = layout_.begin(i) + done;
      const int owner = layout_.owner_of(element);
      const std::int64_t n =
          std::min(parameters_[i]->numel - done, (owner + 1) * layout_.part() - element);
      if (!pieces.empty() && pieces.back().owner == owner)
        pieces.back().numel += n;
      else
        pieces.push_back({owner, at, n});
      done += n;
      at += n;
    }
  }
  TORCH_CHECK(at == elements, "bucket of ", elements, " elements holds parameters of ", at);
  if (pieces.size() == 1) {
    setup_.communicator->all_reduce(all);
    return;
  }
  std::vector<at::Tensor> parts;
  for (const Piece& piece : pieces) parts.push_back(all.narrow(0, piece.begin, piece.numel));
  const at::Tensor flat = at::cat(parts);
  setup_.communicator->all_reduce(flat);
  bool mine = false;
  for (const Piece& piece : pieces) {
    if (piece.owner != setup_.communicator->rank()) continue;
    all.narrow(0, piece.begin, piece.numel).copy_(flat.narrow(0, piece.begin, piece.numel));
    mine = true;
  }
  if (overlap_) {
    reduction_.keep(flat);
    if (mine) reduction_.keep(gradients);
  }
}

void BucketReducer::flush() {
  if (pending_.empty()) return;
  const Lane compute = Lane::current(setup_.device);
  if (overlap_) {
    reduction_.wait_for(compute);
    compute.wait_for(reduction_);
  }
  const OnLane lane(overlap_ ? reduction_ : compute);
  const bool oversized = parameters_[pending_.front()]->numel > limit_;
  TORCH_CHECK(!oversized || pending_.size() == 1, "an oversized gradient shares its bucket");
  average(oversized ? parameters_[pending_.front()]->value.grad().view(-1)
                    : buffers_[current_].narrow(0, 0, filled_),
          filled_);
  for (const std::size_t i : pending_) {
    if (layout_.owned(i, setup_.communicator->rank()).numel > 0) {
      owned_(i);
    } else if (setup_.ds.zero.stage == 2) {
      parameters_[i]->value.mutable_grad().reset();
    }
  }
  pending_.clear();
  filled_ = 0;
}

void BucketReducer::finish() {
  flush();
  if (overlap_) synchronize(setup_.device);
  buffers_[1].reset();
  buffers_[0].reset();
}

}  // namespace zplan::trainer
