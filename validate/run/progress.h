// What a person sees while a run lasts: a line on stderr where that is a terminal, and Prometheus
// text for node_exporter's textfile collector where asked.
#pragma once

#include <chrono>
#include <string>

#include "run/plan.h"
#include "run/recorder.h"

namespace zplan::trainer {

class Progress {
 public:
  Progress(const Plan& plan, bool speaks);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void phase(Phase phase, std::int64_t step);
  void done(const PhaseRecord& record);
  void step(std::int64_t step, double loss);

 private:
  void show(const std::string& line);
  const Plan& plan_;
  bool speaks_, terminal_;
  std::chrono::steady_clock::time_point start_;
  Bytes peak_;
  double loss_ = 0;
  bool any_loss_ = false;
};

// The metrics of one phase, in the text format of Prometheus.
std::string prometheus_text(const PhaseRecord& record, std::int64_t rank, double loss);

}  // namespace zplan::trainer
