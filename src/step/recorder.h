// Writes down what a simulated rank asks of the allocators: allocations with a name and a component, frees,
// uses by other streams, phases, and host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocator/history.h"
#include "step/clock.h"
#include "step/component.h"
#include "step/script.h"

namespace zplan {

enum class Phase : std::uint8_t { Start, Load, Init, Forward, Backward, Step, Eval };
const char* name(Phase phase);

// Streams of a rank. Side streams exist only where overlap_comm makes them.
constexpr StreamId kCompute = 0, kGather = 1, kReduce = 2;

struct PhaseMark {
  std::int64_t step = -1, micro_step = -1;  // -1: outside the loop
  Phase phase = Phase::Start;
  std::size_t end = 0;                      // events before this index belong to it or to earlier phases
  Bytes host, host_pinned;                  // of this rank, at the end; host without the interpreter's baseline
  Bytes host_peak;
  bool peaks_reset = false;                 // the program itself reset torch's peak counters as the phase ended
};

// A block's name: a label and a number (layer, parameter, sub-group; -1 = none).
struct BlockInfo {
  std::uint16_t label = 0;
  std::int16_t index = -1;
};

struct SimulatedHistory {
  std::vector<Event> events;
  std::vector<BlockInfo> blocks;  // by BlockId
  std::vector<Label> labels;
  std::vector<PhaseMark> phases;
};

class Recorder {
 public:
  explicit Recorder(std::vector<Label> labels) { history_.labels = std::move(labels); }

  // From now on frees complete when the clock says so; without one, at the next allocation.
  void use_clock(const Gpu& gpu, bool fp32 = false) { clock_.emplace(gpu, fp32); }
  std::optional<Clock>& clock() { return clock_; }

  std::uint16_t label(const std::string& text, Component component);
  // flops: of the kernel that fills the block, where it is a matrix product.
  BlockId allocate(std::int64_t bytes, std::uint16_t label, std::int64_t index = -1, StreamId stream = kCompute,
                   double flops = 0);
  // Tensor.record_stream: `stream` uses the block besides the one it was allocated on.
  void record_stream(BlockId block, StreamId stream);
  // The last reference is dropped. A block that another stream recorded comes back when that stream has passed.
  void free(BlockId block);
  // All streams have been waited for (torch.cuda.synchronize): every deferred free completes.
  void synchronize();
  void empty_cache();
  void mark(Phase phase, std::int64_t step = -1, std::int64_t micro_step = -1);
  // torch.cuda.reset_peak_memory_stats() at the end of the phase just marked.
  void reset_peaks() { history_.phases.back().peaks_reset = true; }

  void host(std::int64_t bytes);          // change of resident host memory
  void host_pinned(std::int64_t bytes);   // change of pinned host memory (also resident)
  const SimulatedHistory& history() const { return history_; }
  SimulatedHistory take() { return std::move(history_); }

 private:
  void load_kernel(std::uint16_t label);
  void complete_ready();
  void complete_all();

  SimulatedHistory history_;
  std::vector<StreamId> stream_;          // by block
  std::vector<std::uint8_t> recorded_;    // by block: bit per stream
  struct Pending { BlockId block; double ready; };
  std::vector<Pending> pending_;
  std::optional<Clock> clock_;
  std::set<std::string> loaded_kernels_;  // those that have run
  std::vector<bool> loaded_labels_;       // by label: its kernel is one of them
  std::int64_t host_ = 0, host_pinned_ = 0, host_peak_ = 0;
};

}  // namespace zplan
