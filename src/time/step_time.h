// Seconds of one optimizer step of a run on a cluster: by part, by phase, what limits it, and how sure that is.
// docs/time-model.md
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "spec/note.h"
#include "spec/run.h"
#include "time/coefficients.h"
#include "units/units.h"

namespace zplan {

// What the step's seconds are spent on. Parts add up to the step: a part that runs beside another counts only as far
// as it shows.
enum class TimePart {
  Matmul, Attention, ElementWise, Recompute, Optimizer, Host, Communication, Copies, CpuOptimizer, Nvme,
};
inline constexpr std::size_t time_parts = 10;
std::string_view name(TimePart part);  // "matmul"

// Which resource decides the step.
enum class Limiter { Compute, Host, Communication, Copies, CpuOptimizer, Nvme };

struct StepTime {
  std::array<double, time_parts> parts{};  // seconds by TimePart
  // Each resource's own work in one step, shown or not: what the race is between.
  double gpu_busy_s = 0, host_busy_s = 0, communication_busy_s = 0, copies_busy_s = 0;
  // As a phase-by-phase measurement sees them.
  double forward_s = 0, backward_s = 0;    // of one micro-step before the last
  double last_backward_s = 0, step_s = 0;  // with what the boundary adds
  Limiter limiter = Limiter::Compute;
  double relative_error = 0;               // standard error of the total over the total
  TimePart least_certain = TimePart::Matmul;
  double tokens_per_gpu = 0;

  Seconds part(TimePart p) const { return {parts[static_cast<std::size_t>(p)]}; }
  Seconds total() const {
    double sum = 0;
    for (const double p : parts) sum += p;
    return {sum};
  }
  double tokens_per_second_per_gpu() const { return tokens_per_gpu / total().count; }
};

StepTime predict_step_time(const Run& run, const Cluster& cluster, const TimeCoefficients& coefficients);

// Never above predict_step_time with the same coefficients: kernels, host and optimizer, with all communication and
// every copy hidden.
Seconds step_time_lower_bound(const Run& run, const Cluster& cluster, const TimeCoefficients& coefficients);

// "host-bound: raise the micro-batch or use stage 2".
std::string limiter_text(const StepTime& time, const Run& run);
// "±18 %: the host's share differs between machines; measure it first".
std::string uncertainty_text(const StepTime& time);
// Where the host decides and nothing was calibrated: that a measurement on the machine says what it takes.
std::optional<Note> host_note(const StepTime& time, const TimeCoefficients& coefficients);

}  // namespace zplan
