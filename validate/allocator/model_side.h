// Our allocator with what the program and the streams around it keep: who recorded a block, which
// events are outstanding, what a malloc sees of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "allocator/caching_allocator.h"

namespace zplan {

class ModelAllocator {
 public:
  ModelAllocator(const AllocatorOptions& options, int streams);

  // `recorded` is what the real allocator traced in the same call: it tells where segments lie, and
  // in which order (a hash table's) the events of several streams were looked at.
  BlockIndex allocate(std::int64_t bytes, StreamId stream, std::span<const TraceEntry> recorded);
  void free(BlockIndex block);
  void record_stream(BlockIndex block, StreamId stream);
  void empty_cache();
  void close(StreamId stream);
  void open(StreamId stream);

  bool closed(StreamId stream) const { return streams_[stream].closed; }
  // Streams with an event of the block just freed.
  const std::vector<StreamId>& just_recorded() const { return just_recorded_; }
  // Whether the call would wait for the device or take or give memory: on a real one no gate may be
  // closed.
  bool touches_device(std::int64_t bytes, StreamId stream) const;
  // Streams whose pending events are several: a synchronisation meets them in any order.
  bool order_matters() const { return order_matters_; }

  CachingAllocator& allocator() { return allocator_; }
  // The statistics were reset outside: a counter that moved back is no synchronisation.
  void synchronisations_reset() {
    synchronisations_ = allocator_.statistics().num_sync_all_streams;
  }
  std::vector<TraceEntry>& written() { return written_; }
  // Where a reservation went whose first mapping failed and so was not traced.
  void know_last_range(std::function<std::uint64_t()> last) { last_range_ = std::move(last); }

 private:
  struct StreamState {
    bool closed = false;
    int period = 0;  // counts closings
    struct Event {
      BlockIndex block;
      int period;  // -1: recorded while open
    };
    std::deque<Event> events;
  };
  struct Uses {
    std::vector<StreamId> streams;
    int events = 0;
  };

  std::vector<BlockIndex> passed();
  void complete(std::vector<BlockIndex> ready, std::span<const TraceEntry> recorded);
  void forget_events_after_synchronisation();
  std::int64_t place(std::span<const TraceEntry> recorded) const;
  Uses& uses(BlockIndex block);

  CachingAllocator allocator_;
  std::vector<TraceEntry> written_;
  std::vector<StreamState> streams_;
  std::vector<Uses> uses_;  // by block
  std::vector<StreamId> just_recorded_;
  std::int64_t synchronisations_ = 0;
  bool order_matters_ = false;
  std::function<std::uint64_t()> last_range_;
};

}  // namespace zplan
