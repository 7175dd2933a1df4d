// The real allocator, c10::cuda::CUDACachingAllocator, behind the few calls the comparison needs.
// Its interface changes between torch releases: everything of it stays in torch_side.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/statistics.h"
#include "allocator/trace_entry.h"

namespace zplan {

// Every statistic as torch reports it: "allocated_bytes.large.peak" and its value, in a fixed
// order.
struct NamedStatistic {
  std::string name;
  std::int64_t value = 0;
};

class TorchAllocator {
 public:
  // With so many streams, of which the first is the default one.
  explicit TorchAllocator(int streams);
  ~TorchAllocator();

  // The options as torch reads them; its error text where it refuses.
  std::optional<std::string> configure(const std::string& conf);
  // What the options became.
  AllocatorOptions configured() const;
  void set_memory_fraction(double fraction);

  // A number to name the block by; the message where memory was out. Zero bytes: neither.
  struct Allocated {
    std::optional<int> block;
    std::optional<std::string> out_of_memory;
  };
  Allocated allocate(std::int64_t bytes, StreamId stream);
  void free(int block);
  void record_stream(int block, StreamId stream);
  void empty_cache();

  // The stream waits from now on, or no longer.
  void close(StreamId stream);
  void open(StreamId stream);
  // Until everything queued on an open stream has run.
  void synchronise(StreamId stream);

  void reset_peak();
  void reset_accumulated();
  std::vector<std::int64_t> statistics() const;  // in the order of statistic_names()
  std::vector<SegmentView> snapshot() const;
  // What the allocator traced since the last call.
  std::vector<TraceEntry> take_trace();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

const std::vector<std::string>& statistic_names();
// The same list from ours.
std::vector<std::int64_t> statistics_of(const Statistics& statistics);

}  // namespace zplan
