#include "step/recorder.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace zplan {
namespace {

// The kernel that fills a block, as far as its label tells: all norms of a model run the same ones, so that
// "final norm: f.x32" is "input norm: a.x32".
std::string kernel_of(const std::string& label) {
  const auto name = label.rfind(": ");
  if (name == std::string::npos) return label;
  const auto dot = label.rfind('.');
  return label.substr(dot != std::string::npos && dot > name ? dot + 1 : name + 2);
}

}  // namespace

const char* name(Phase phase) {
  switch (phase) {
    case Phase::Start: return "start";
    case Phase::Load: return "load";
    case Phase::Init: return "init";
    case Phase::Forward: return "forward";
    case Phase::Backward: return "backward";
    case Phase::Step: return "step";
    case Phase::Eval: return "eval";
  }
  return "";
}

std::uint16_t Recorder::label(const std::string& text, Component component) {
  history_.labels.push_back({text, component});
  return static_cast<std::uint16_t>(history_.labels.size() - 1);
}

BlockId Recorder::allocate(std::int64_t bytes, std::uint16_t label, std::int64_t index, StreamId stream, double flops) {
  assert(bytes > 0);
  if (clock_) {
    clock_->host_works(Clock::kOperator);
    load_kernel(label);
  }
  complete_ready();
  const auto block = static_cast<BlockId>(history_.blocks.size());
  history_.blocks.push_back({label, static_cast<std::int16_t>(index)});
  stream_.push_back(stream);
  recorded_.push_back(0);
  history_.events.push_back({Action::Allocate, stream, block, bytes});
  if (clock_) {
    if (flops > 0) clock_->computes(stream, flops);
    else clock_->writes(stream, bytes);
  }
  return block;
}

// CUDA loads a kernel when it is first called (lazy loading); the host waits for the device and then goes on.
void Recorder::load_kernel(std::uint16_t label) {
  if (loaded_labels_.size() <= label) loaded_labels_.resize(history_.labels.size());
  if (loaded_labels_[label]) return;
  loaded_labels_[label] = true;
  if (loaded_kernels_.insert(kernel_of(history_.labels[label].text)).second) clock_->synchronize();
}

void Recorder::record_stream(BlockId block, StreamId stream) {
  const auto i = static_cast<std::size_t>(block);
  if (stream != stream_[i]) recorded_[i] = static_cast<std::uint8_t>(recorded_[i] | (1u << stream));
}

void Recorder::free(BlockId block) {
  if (block < 0) throw std::logic_error("step: a block is freed that is not alive (event table or engine)");
  const auto i = static_cast<std::size_t>(block);
  if (recorded_[i] == 0) {
    history_.events.push_back({Action::Free, stream_[i], block, 0});
    return;
  }
  history_.events.push_back({Action::FreeRequested, stream_[i], block, 0});
  double ready = 0;
  for (const StreamId s : {kCompute, kGather, kReduce}) {
    if (clock_ && (recorded_[i] & (1u << s))) ready = std::max(ready, clock_->stream(s));
  }
  pending_.push_back({block, ready});
}

// torch asks the events of freed blocks at the start of every allocation (CUDACachingAllocator process_events).
void Recorder::complete_ready() {
  if (!clock_) return complete_all();
  std::size_t kept = 0;
  for (const auto& p : pending_) {
    if (p.ready > clock_->host()) pending_[kept++] = p;
    else history_.events.push_back({Action::FreeCompleted, stream_[static_cast<std::size_t>(p.block)], p.block, 0});
  }
  pending_.resize(kept);
}

void Recorder::complete_all() {
  if (clock_) clock_->synchronize();
  for (const auto& p : pending_) {
    history_.events.push_back({Action::FreeCompleted, stream_[static_cast<std::size_t>(p.block)], p.block, 0});
  }
  pending_.clear();
}

void Recorder::synchronize() { complete_all(); }

void Recorder::empty_cache() {
  complete_all();
  history_.events.push_back({Action::EmptyCache, kCompute, 0, 0});
}

void Recorder::mark(Phase phase, std::int64_t step, std::int64_t micro_step) {
  complete_all();
  history_.events.push_back({Action::Mark, kCompute, static_cast<BlockId>(history_.phases.size()), 0});
  history_.phases.push_back({step, micro_step, phase, history_.events.size(), {host_}, {host_pinned_}, {host_peak_}, false});
  host_peak_ = host_;
}

void Recorder::host(std::int64_t bytes) {
  host_ += bytes;
  host_peak_ = std::max(host_peak_, host_);
}

void Recorder::host_pinned(std::int64_t bytes) {
  host_pinned_ += bytes;
  host(bytes);
}

}  // namespace zplan
