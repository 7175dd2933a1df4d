#include "zero/gather.h"

namespace zplan::trainer {
namespace {

at::Tensor on_device(const Partitioned& p, at::Device device) {
  return p.slice.to(device, /*non_blocking=*/true);
}

void set_whole(Partitioned& p, const at::Tensor& buffer) {
  p.parameter->value.set_data(buffer.narrow(0, 0, p.parameter->numel).view(p.parameter->shape));
}

}  // namespace

Gather::Gather(std::vector<Partitioned*> parameters, Communicator& communicator, at::Device device,
               Way way)
    : parameters_(std::move(parameters)), communicator_(communicator) {
  const std::int64_t ranks = communicator.size();
  for (Partitioned* p : parameters_) p->status = Partitioned::Status::InFlight;
  if (ranks == 1) {
    for (Partitioned* p : parameters_) set_whole(*p, on_device(*p, device));
    return;
  }
  const auto options = parameters_.front()->slice.options().device(device).pinned_memory(false);
  if (way == Way::EachAlone || parameters_.size() == 1) {
    for (Partitioned* p : parameters_) {
      const at::Tensor whole = at::empty({ranks * p->slice_numel}, options);
      communicator.all_gather(whole, on_device(*p, device));
      set_whole(*p, whole);
    }
    return;
  }
  std::int64_t mine = 0;
  for (const Partitioned* p : parameters_) mine += p->slice_numel;
  buffer_ = at::empty({ranks * mine}, options);
  at::Tensor slot = buffer_.narrow(0, communicator.rank() * mine, mine);
  {
    std::vector<at::Tensor>
        slices;  // with offload_param, copies that live until they are in the flat buffer
    for (const Partitioned* p : parameters_) slices.push_back(on_device(*p, device));
    at::cat_out(slot, slices);
  }
  communicator.all_gather(buffer_, slot);
}

void Gather::wait() {
  if (complete_) return;
  complete_ = true;
  if (buffer_.defined()) copy_out();
  for (Partitioned* p : parameters_) p->status = Partitioned::Status::Here;
}

void Gather::copy_out() {
  const std::int64_t ranks = communicator_.size();
  const std::int64_t mine = buffer_.numel() / ranks;
  const Lane lane = Lane::current(buffer_.device());
  std::int64_t offset = 0;
  for (Partitioned* p : parameters_) {
    std::vector<at::Tensor> pieces;
    for (std::int64_t r = 0; r < ranks && r * p->slice_numel < p->parameter->numel; ++r) {
      const std::int64_t n = std::min(p->slice_numel, p->parameter->numel - r * p->slice_numel);
      pieces.push_back(buffer_.narrow(0, r * mine + offset, n));
    }
    p->parameter->value.set_data(at::cat(pieces).view(p->parameter->shape));
    for (const at::Tensor& piece : pieces) lane.keep(piece);
    offset += p->slice_numel;
  }
}

void gather_each(const std::vector<Partitioned*>& parameters, Communicator& communicator,
                 at::Device device) {
  std::vector<at::Tensor> buffers;
  std::vector<at::Tensor> slices;
  for (const Partitioned* p : parameters) {
    slices.push_back(on_device(*p, device));
    if (communicator.size() > 1) {
      buffers.push_back(at::empty({communicator.size() * p->slice_numel}, slices.back().options()));
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (communicator.size() > 1) communicator.all_gather(buffers[i], slices[i]);
    set_whole(*parameters[i], communicator.size() > 1 ? buffers[i] : slices[i]);
    parameters[i]->status = Partitioned::Status::Here;
  }
}

}  // namespace zplan::trainer
