#include "torch_side.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "torch_version.h"

#if ZPLAN_TORCH_AT_LEAST(12)
#include <c10/cuda/PeerToPeerAccess.h>
#endif

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>

// Exported by libc10_cuda, declared in no header.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*)(DeviceIndex));
}

namespace zplan {
namespace {

namespace torch_allocator = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::DeviceStats;

TraceAction action_of(torch_allocator::TraceEntry::Action action) {
  using Entry = torch_allocator::TraceEntry;
  switch (action) {
    case Entry::ALLOC:
      return TraceAction::Alloc;
    case Entry::FREE_REQUESTED:
      return TraceAction::FreeRequested;
    case Entry::FREE_COMPLETED:
      return TraceAction::FreeCompleted;
    case Entry::SEGMENT_ALLOC:
      return TraceAction::SegmentAlloc;
    case Entry::SEGMENT_FREE:
      return TraceAction::SegmentFree;
    case Entry::SEGMENT_MAP:
      return TraceAction::SegmentMap;
    case Entry::SEGMENT_UNMAP:
      return TraceAction::SegmentUnmap;
    case Entry::SNAPSHOT:
      return TraceAction::Snapshot;
    case Entry::OOM:
      return TraceAction::Oom;
  }
  throw std::logic_error("an action this torch release added");
}

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

std::int64_t signed_size(std::size_t n) {
  constexpr auto limit = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(n, limit));
}

std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

// "all" first, as torch.cuda.memory_stats() and our Counter have it.
template <class Visit>
void visit_counters(const DeviceStats& s, Visit visit) {
  visit(s.allocation), visit(s.allocated_bytes), visit(s.active), visit(s.active_bytes);
  visit(s.requested_bytes), visit(s.segment), visit(s.reserved_bytes), visit(s.inactive_split);
  visit(s.inactive_split_bytes);
}

using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);

}  // namespace

struct TorchAllocator::State {
  std::vector<c10::cuda::CUDAStream>
      streams;  // by StreamId: ascending handles, the default stream first
  std::vector<std::atomic<std::uint32_t>*> gates;  // the one that each stream waits at, or last did
  // A stream gets a new word each time: what was queued behind an earlier one must stay past it.
  std::vector<std::atomic<std::uint32_t>*> words;
  std::size_t next_word = 0;
  std::vector<c10::DataPtr> blocks;
  std::vector<int> unused;
  std::vector<TraceEntry> trace;
  WaitValue wait_value = nullptr;

  StreamId id_of(void* handle) const {
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (streams[i].stream() == handle) return static_cast<StreamId>(i);
    throw std::logic_error("a stream the test did not make");
  }
};

TorchAllocator::TorchAllocator(int streams) : state_(std::make_unique<State>()) {
  check(cudaFree(nullptr));
  // ATen answers this in a whole torch; c10 alone has to be told that the context exists.
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
#if ZPLAN_TORCH_AT_LEAST(12)
  c10::cuda::detail::init_p2p_access_cache(1);
#endif
  // Handles that need no NVLink fabric: whether there is one is asked of NVML, which need not be
  // there.
  torch_allocator::CUDAAllocatorConfig::set_expandable_segments_handle_type(
      torch_allocator::Expandable_Segments_Handle_Type::POSIX_FD);
  torch_allocator::init(1);
  State& s = *state_;
  s.streams.push_back(c10::cuda::getDefaultCUDAStream(0));
  for (int i = 1; i < streams; ++i) s.streams.push_back(c10::cuda::getStreamFromPool(false, 0));
  std::sort(s.streams.begin(), s.streams.end(),
            [](const auto& a, const auto& b) { return a.stream() < b.stream(); });
  constexpr std::size_t kWords = 4096;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, 4 * kWords, cudaHostAllocMapped));
  for (std::size_t i = 0; i < kWords; ++i)
    s.words.push_back(new (static_cast<char*>(memory) + 4 * i) std::atomic<std::uint32_t>(1));
  s.gates.assign(s.streams.size(), s.words.front());
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000, cudaEnableDefault,
                                         &found));
  s.wait_value = reinterpret_cast<WaitValue>(function);
  torch_allocator::attachAllocatorTraceTracker([this](const torch_allocator::TraceEntry& e) {
    state_->trace.push_back({action_of(e.action_), state_->id_of(e.stream_),
                             static_cast<std::int64_t>(e.addr_),
                             static_cast<std::int64_t>(e.size_)});
  });
}

// The tracker outlives us in the allocator: the process must end after this.
TorchAllocator::~TorchAllocator() { state_->blocks.clear(); }

std::optional<std::string> TorchAllocator::configure(const std::string& conf) {
  try {
    c10::CachingAllocator::setAllocatorSettings(conf);
    return {};
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    // An internal assertion names its source line first.
    const std::string bug = "please report a bug to PyTorch. ";
    const std::size_t at = text.find(bug);
    return at == std::string::npos ? text : text.substr(at + bug.size());
  } catch (const std::exception& e) {
    return first_line(e.what());
  }
}

AllocatorOptions TorchAllocator::configured() const {
  using Common = c10::CachingAllocator::AcceleratorAllocatorConfig;
  using Cuda = torch_allocator::CUDAAllocatorConfig;
  AllocatorOptions o;
  o.expandable_segments = Common::use_expandable_segments();
  o.max_split_size = signed_size(Common::max_split_size());
  o.max_non_split_rounding = signed_size(Common::max_non_split_rounding_size());
#if ZPLAN_TORCH_AT_LEAST(11)
  o.large_segment_size = signed_size(Common::large_segment_size());
#endif
  o.garbage_collection_threshold = Common::garbage_collection_threshold();
  const auto& divisions = Common::roundup_power2_divisions();
  for (std::size_t i = 0; i < divisions.size(); ++i)
    o.roundup_power2_divisions[i] = signed_size(divisions[i]);
#if ZPLAN_TORCH_AT_LEAST(10)
  o.per_process_memory_fraction = Cuda::per_process_memory_fraction();
#endif
  o.pinned.use_background_threads = Common::pinned_use_background_threads();
  o.pinned.use_cuda_host_register = Cuda::pinned_use_cuda_host_register();
  o.pinned.num_register_threads = signed_size(Cuda::pinned_num_register_threads());
#if ZPLAN_TORCH_AT_LEAST(10)
  o.pinned.reserve_segment = Bytes{signed_size(Cuda::pinned_reserve_segment_size_mb() << 20)};
#endif
  return o;
}

void TorchAllocator::set_memory_fraction(double fraction) {
  torch_allocator::setMemoryFraction(fraction, 0);
}

TorchAllocator::Allocated TorchAllocator::allocate(std::int64_t bytes, StreamId stream) {
  State& s = *state_;
  c10::cuda::setCurrentCUDAStream(s.streams[stream]);
  try {
    c10::DataPtr data = torch_allocator::get()->allocate(static_cast<std::size_t>(bytes));
    if (!data.get()) return {};
    if (s.unused.empty()) {
      s.unused.push_back(static_cast<int>(s.blocks.size()));
      s.blocks.emplace_back();
    }
    const int block = s.unused.back();
    s.unused.pop_back();
    s.blocks[static_cast<std::size_t>(block)] = std::move(data);
    return {block, {}};
  } catch (const c10::OutOfMemoryError& e) {
    return {{}, e.what_without_backtrace()};
  }
}

void TorchAllocator::free(int block) {
  state_->blocks[static_cast<std::size_t>(block)].clear();
  state_->unused.push_back(block);
}

void TorchAllocator::record_stream(int block, StreamId stream) {
  torch_allocator::recordStream(state_->blocks[static_cast<std::size_t>(block)],
                                state_->streams[stream]);
}

void TorchAllocator::empty_cache() { torch_allocator::emptyCache(); }

void TorchAllocator::close(StreamId stream) {
  State& s = *state_;
  std::atomic<std::uint32_t>* gate = s.gates[stream] = s.words[s.next_word++ % s.words.size()];
  gate->store(0);
  void* address = nullptr;
  check(cudaHostGetDevicePointer(&address, gate, 0));
  if (s.wait_value(s.streams[stream].stream(), reinterpret_cast<CUdeviceptr>(address), 1,
                   CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS)
    throw std::runtime_error("cuStreamWaitValue32 failed");
}

void TorchAllocator::open(StreamId stream) {
  state_->gates[stream]->store(1);
  synchronise(stream);
}

void TorchAllocator::synchronise(StreamId stream) {
  check(cudaStreamSynchronize(state_->streams[stream].stream()));
}

void TorchAllocator::reset_peak() { torch_allocator::resetPeakStats(0); }
void TorchAllocator::reset_accumulated() { torch_allocator::resetAccumulatedStats(0); }

std::vector<std::int64_t> TorchAllocator::statistics() const {
  const DeviceStats stats = torch_allocator::getDeviceStats(0);
  std::vector<std::int64_t> out;
  const auto add = [&](const c10::CachingAllocator::Stat& s) {
    out.insert(out.end(), {s.current, s.peak, s.allocated, s.freed});
  };
  visit_counters(stats, [&](const auto& array) {
    for (const auto& stat : array) add(stat);
  });
  add(stats.oversize_allocations);
  add(stats.oversize_segments);
  out.insert(out.end(), {stats.num_alloc_retries, stats.num_ooms, stats.num_sync_all_streams,
                         stats.num_device_alloc, stats.num_device_free});
  return out;
}

std::vector<SegmentView> TorchAllocator::snapshot() const {
  std::vector<SegmentView> out;
#if ZPLAN_TORCH_AT_LEAST(11)
  const auto info = torch_allocator::snapshot({0, 0}, false);
#else
  const auto info = torch_allocator::snapshot();
#endif
  for (const auto& segment : info.segments) {
    SegmentView view{static_cast<std::int64_t>(segment.address),
                     signed_size(segment.total_size),
                     state_->id_of(segment.stream),
                     segment.is_large ? Pool::Large : Pool::Small,
                     segment.is_expandable,
                     {}};
    for (const auto& b : segment.blocks)
      view.blocks.push_back({signed_size(b.size), signed_size(b.requested_size),
                             b.allocated ? BlockState::Allocated
                             : b.active  ? BlockState::Pending
                                         : BlockState::Free});
    out.push_back(std::move(view));
  }
  std::sort(out.begin(), out.end(),
            [](const SegmentView& a, const SegmentView& b) { return a.address < b.address; });
  return out;
}

std::vector<TraceEntry> TorchAllocator::take_trace() { return std::exchange(state_->trace, {}); }

const std::vector<std::string>& statistic_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    const auto stat = [&](const std::string& name) {
      for (const char* part : {"current", "peak", "allocated", "freed"})
        out.push_back(name + "." + part);
    };
    for (const char* counter :
         {"allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes", "segment",
          "reserved_bytes", "inactive_split", "inactive_split_bytes"})
      for (const char* pool : {"all", "small_pool", "large_pool"})
        stat(std::string(counter) + "." + pool);
    stat("oversize_allocations");
    stat("oversize_segments");
    for (const char* count : {"num_alloc_retries", "num_ooms", "num_sync_all_streams",
                              "num_device_alloc", "num_device_free"})
      out.push_back(count);
    return out;
  }();
  return names;
}

std::vector<std::int64_t> statistics_of(const Statistics& s) {
  std::vector<std::int64_t> out;
  const auto add = [&](const Stat& stat) {
    out.insert(out.end(), {stat.current, stat.peak, stat.allocated, stat.freed});
  };
  for (const Counter* c :
       {&s.allocation, &s.allocated_bytes, &s.active, &s.active_bytes, &s.requested_bytes,
        &s.segment, &s.reserved_bytes, &s.inactive_split, &s.inactive_split_bytes}) {
    add(c->all());
    add(c->of(Pool::Small));
    add(c->of(Pool::Large));
  }
  add(s.oversize_allocations.all());
  add(s.oversize_segments.all());
  out.insert(out.end(), {s.num_alloc_retries, s.num_ooms, s.num_sync_all_streams,
                         s.num_device_alloc, s.num_device_free});
  return out;
}

}  // namespace zplan
