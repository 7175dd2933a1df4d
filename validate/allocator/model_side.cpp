#include "model_side.h"

#include <algorithm>

namespace zplan {
namespace {

bool obtains(const TraceEntry& e) {
  return e.action == TraceAction::SegmentAlloc || e.action == TraceAction::SegmentMap;
}

}  // namespace

ModelAllocator::ModelAllocator(const AllocatorOptions& options, int streams)
    : allocator_(options), streams_(static_cast<std::size_t>(streams)) {
  allocator_.write_trace(&written_);
}

ModelAllocator::Uses& ModelAllocator::uses(BlockIndex block) {
  const auto i = static_cast<std::size_t>(block);
  if (i >= uses_.size()) uses_.resize(i + 1);
  return uses_[i];
}

// The oldest events of each stream, up to the first that has not passed. Returns the blocks with
// none left.
std::vector<BlockIndex> ModelAllocator::passed() {
  std::vector<BlockIndex> ready;
  for (StreamState& s : streams_)
    while (!s.events.empty()) {
      const auto [block, period] = s.events.front();
      if (s.closed && period == s.period) break;
      s.events.pop_front();
      if (--uses(block).events == 0) ready.push_back(block);
    }
  return ready;
}

void ModelAllocator::complete(std::vector<BlockIndex> ready, std::span<const TraceEntry> recorded) {
  for (const TraceEntry& e : recorded) {
    if (ready.empty() || e.action != TraceAction::FreeCompleted) break;
    const auto found = std::find_if(ready.begin(), ready.end(), [&](BlockIndex b) {
      return allocator_.block(b).address == e.address;
    });
    if (found == ready.end()) break;
    const BlockIndex block = *found;
    ready.erase(found);
    allocator_.free_completed(block);
  }
  for (const BlockIndex block : ready) allocator_.free_completed(block);
}

void ModelAllocator::forget_events_after_synchronisation() {
  const std::int64_t now = allocator_.statistics().num_sync_all_streams;
  if (now == synchronisations_) return;
  synchronisations_ = now;
  int streams = 0;
  for (StreamState& s : streams_) {
    streams += !s.events.empty();
    for (const auto& e : s.events) uses(e.block).events = 0;
    s.events.clear();
  }
  order_matters_ = streams > 1;
}

std::int64_t ModelAllocator::place(std::span<const TraceEntry> recorded) const {
  auto skip = std::count_if(written_.begin(), written_.end(), obtains);
  for (const TraceEntry& e : recorded)
    if (obtains(e) && skip-- == 0) return e.address;
  return last_range_ ? static_cast<std::int64_t>(last_range_()) : 0;
}

BlockIndex ModelAllocator::allocate(std::int64_t bytes, StreamId stream,
                                    std::span<const TraceEntry> recorded) {
  order_matters_ = false;
  if (bytes > 0 && bytes < kRequestLimit) complete(passed(), recorded);
  allocator_.use_device({}, [&](std::int64_t) { return place(recorded); });
  const BlockIndex block = allocator_.allocate(bytes, stream);
  forget_events_after_synchronisation();
  return block;
}

void ModelAllocator::record_stream(BlockIndex block, StreamId stream) {
  if (stream == allocator_.block(block).stream) return;
  auto& streams = uses(block).streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void ModelAllocator::free(BlockIndex block) {
  Uses& u = uses(block);
  just_recorded_ = std::move(u.streams);
  u.streams.clear();
  if (just_recorded_.empty()) return allocator_.free(block);
  allocator_.free_requested(block);
  for (const StreamId stream : just_recorded_) {
    StreamState& s = streams_[stream];
    s.events.push_back({block, s.closed ? s.period : -1});
    ++u.events;
  }
}

void ModelAllocator::empty_cache() {
  order_matters_ = false;
  allocator_.empty_cache();
  forget_events_after_synchronisation();
}

void ModelAllocator::close(StreamId stream) {
  streams_[stream].closed = true;
  ++streams_[stream].period;
}
void ModelAllocator::open(StreamId stream) { streams_[stream].closed = false; }

bool ModelAllocator::touches_device(std::int64_t bytes, StreamId stream) const {
  ModelAllocator copy = *this;
  copy.allocator_.write_trace(nullptr);
  copy.allocator_.use_device({}, [](std::int64_t) { return std::int64_t{1} << 21; });
  const Statistics before = copy.allocator_.statistics();
  copy.complete(copy.passed(), {});
  copy.allocator_.allocate(bytes, stream);
  const Statistics& after = copy.allocator_.statistics();
  return before.num_device_alloc != after.num_device_alloc ||
         before.num_device_free != after.num_device_free ||
         before.num_sync_all_streams != after.num_sync_all_streams;
}

}  // namespace zplan
