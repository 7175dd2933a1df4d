// The measurement record (zplan.measurement/1) of one rank, on disk from the first phase on: whole
// or not at all, and always with an "outcome".
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "probe/memory_probe.h"
#include "run/plan.h"

namespace zplan::trainer {

// The record cannot be written: a full disk, a folder that is gone.
struct WriteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct PhaseRecord {
  Phase phase = Phase::Start;
  std::int64_t step = -1, micro_step = -1;
  MemoryFigures memory;
  double seconds = 0;                    // wall, with a synchronisation at the end
  std::optional<double> device_seconds;  // between CUDA events on the compute stream
};

struct Failure {
  int rank = 0;
  std::string where, what;  // "in backward of step 3, micro-step 0"; one sentence
};

class Recorder {
 public:
  // `path` of the file; "incomplete" until finish().
  Recorder(const Plan& plan, std::string path, const std::string& ranks, const DeviceFacts& device);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add(const PhaseRecord& phase);
  void set(const std::string& key, const nlohmann::json& value);
  void append(const std::string& key, double value);  // to an array
  void write(const std::string& outcome);             // throws WriteError
  const std::vector<PhaseRecord>& phases() const { return phases_; }

 private:
  std::string path_;
  std::unique_ptr<nlohmann::json> record_;
  std::vector<PhaseRecord> phases_;
};

// "measurements.json" of rank 0, "measurements.rank3.json" of rank 3.
std::string record_path(const std::string& out, int rank);
// Marks the record as failed, or writes a minimal one if the rank never wrote any. Used by the
// supervisor.
void mark_failed(const std::string& path, const Failure& failure);
// Writes beside the file and renames. Throws WriteError. `Durable` also waits for the disk.
enum class Keep { Quick, Durable };
void write_file(const std::string& path, const std::string& text, Keep keep = Keep::Quick);

}  // namespace zplan::trainer
