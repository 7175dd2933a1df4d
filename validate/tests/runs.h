// Tiny runs on the CPU: real ranks as processes, the record read back from disk.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "run/plan.h"
#include "run/supervisor.h"

namespace zplan::trainer {

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

struct Outcome {
  int code = 0;
  std::string message;
  nlohmann::json record;  // of rank 0; null if none was written
};

// 3 layers, vocabulary 96, q/k norms, grouped heads; 20 steps of 4 sequences of 32 tokens at lr 1e-2.
Plan tiny_plan();
// Starts the ranks, waits for them and reads the record.
Outcome run(Plan plan, const TemporaryFolder& folder);

}  // namespace zplan::trainer
