// A simulated training held against a recorded history, event by event: what `zplan replay --against-simulation` says.
#pragma once

#include <string>
#include <vector>

#include "io/trace_reader.h"
#include "spec/run.h"
#include "step/agreement.h"

namespace zplan {

struct PhaseAgreement {
  std::string phase;            // "s1g0.bwd"
  bool training = false;        // forward, backward or step
  Agreement agreement;
  std::string recorded_next, simulated_next;  // at the first difference, with the code behind it; empty if none
};

struct AgreementReport {
  std::vector<PhaseAgreement> phases;
  double training() const;      // matched over the longer sequence, all training phases together
  Bytes recorded_reserved_peak, simulated_reserved_peak;  // of the training phases
};

// `run`: the inputs of the recorded run. Marks of the recording must be load, init, then each phase of each micro-step.
AgreementReport agreement_report(const RecordedHistory& history, const Run& run);
std::string agreement_text(const AgreementReport& report);

}  // namespace zplan
