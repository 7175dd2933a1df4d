// A running job against its prediction: samples of the GPUs in, the state of each and warnings out. Knows no driver
// and no clock; who samples says when. docs/watching.md
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plan/growth.h"
#include "spec/note.h"
#include "units/units.h"

namespace zplan {

// One phase of one step of the prediction, micro-steps taken together; device bytes: with what lies outside the
// allocator.
struct CurvePoint {
  std::int64_t step = -1;  // -1: load and init
  std::string phase;
  Bytes peak, end;
};

// What a plan or a simulation says of a rank, as far as the driver can see it.
struct Prediction {
  std::string model, strategy;  // for headings; strategy may be empty
  std::string gpu;              // "H200"
  Bytes capacity;               // what the GPU offers to a process
  std::int64_t gpus_per_node = 1;
  Bytes reserved, outside;               // peak of torch's allocator, and what it does not see
  std::optional<Bytes> rank_difference;  // largest reserved peak of a rank less the smallest; absent: not said
  Seconds step;                          // predicted; 0: not said
  std::vector<CurvePoint> curve;
  // Device bytes at the peak. The allocator gives back what it caches before it asks for more than there is.
  Bytes peak() const;
  Bytes margin() const;      // the prediction's own error
  Bytes after_init() const;  // device bytes when the first step begins; 0: not said
};

struct ProcessMemory {
  std::int64_t pid = 0;
  std::optional<Bytes> used;  // the driver does not always say
  std::optional<std::int64_t> rank;
};

struct GpuSample {
  std::int64_t index = 0;
  std::string uuid, name;          // name: as in the prediction, where the GPU is known
  Bytes capacity, used;            // of the whole device
  std::vector<ProcessMemory> job;  // the job's processes on it
};

struct WatchOptions {
  bool whole_device = false;  // whatever is used counts, no matter whose
  Seconds interval{1};
  Seconds patience{60};  // how long a job may take to show up on all its GPUs
};

struct GpuState {
  std::int64_t index = 0;
  std::string uuid, name;
  std::optional<std::int64_t> rank;
  bool in_job = false;
  Bytes used, peak;        // by the job: now, and the highest so far
  Bytes others, capacity;  // others: used on the device, not by the job
  Bytes headroom() const { return capacity - others - peak; }
  std::string reached;  // "backward of step 1": the first point of the curve as high as the peak; "" none
  std::optional<Growth> growth;
};

struct WatchState {
  Seconds at;
  std::vector<GpuState> gpus;
  Bytes rank_difference;    // highest peak of the job's GPUs less the lowest
  std::vector<Note> fresh;  // warnings of this sample
};

class Watch {
 public:
  Watch(Prediction prediction, WatchOptions options);
  // Samples of all GPUs at one moment, in seconds since the start. A GPU seen before and missing now is remarked
  // upon.
  const WatchState& observe(Seconds at, const std::vector<GpuSample>& samples);

  const Prediction& prediction() const { return prediction_; }
  const WatchState& state() const { return state_; }
  const std::vector<Note>& warnings() const { return warnings_; }  // each once a GPU, oldest first
  std::int64_t samples() const { return samples_; }
  // The job left its prediction: more memory, other differences between ranks, growth.
  bool left_prediction() const;
  // Codes that a warning may have, for counters that start at 0.
  static const std::vector<std::string>& codes();

 private:
  struct Track {
    Bytes peak;
    std::optional<Seconds> ready;  // since when init's level is reached
    GrowthDetector growth;
  };
  GpuState state_of(Seconds at, const GpuSample& sample);
  bool settled(Seconds at, const Track& track) const;
  void judge(const GpuState& gpu);
  void judge_all(Seconds at);
  void judge_machine(Seconds at, const std::vector<GpuSample>& samples);
  void warn(const std::string& code, std::int64_t gpu, const std::string& text, const std::string& fix);

  Prediction prediction_;
  WatchOptions options_;
  WatchState state_;
  std::map<std::int64_t, Track> tracks_;                  // by GPU
  std::set<std::pair<std::string, std::int64_t>> given_;  // warnings, by code and GPU
  std::vector<Note> warnings_;
  std::optional<Seconds> began_, job_seen_;
  std::int64_t samples_ = 0;
};

}  // namespace zplan
