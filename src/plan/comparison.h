// Predicted against measured: one record simulated from its own inputs under its own capacity limit, with signed
// relative errors per quantity, and many records summed up. docs/validation.md#compare
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/measurement.h"
#include "step/simulation.h"
#include "time/coefficients.h"
#include "time/step_time.h"

namespace zplan {

enum class Quantity : std::uint8_t {
  AllocatedPeak,       // highest allocated_peak of the steps and of init
  ReservedPeak,        // likewise reserved_peak
  PhaseAllocatedPeak,  // each phase's allocated_peak; a record's error is the mean of the absolute ones
  PhaseReservedPeak,
  HostPeak,            // highest resident memory of the process, where it was measured
  HostPinned,          // highest pinned host memory, where there is any
  StepSeconds,         // whole steps of a training loop, where they were timed
};
constexpr std::size_t kQuantities = 7;
// Keys of "errors" and "summary" in zplan.comparison/1 and of tolerances: "allocated_peak".
constexpr std::array<const char*, kQuantities> kQuantityNames = {
    "allocated_peak", "reserved_peak", "phase_allocated_peak", "phase_reserved_peak", "host_peak", "host_pinned", "step_seconds"};

struct PhaseComparison {
  std::string phase;
  std::int64_t step = -1, micro_step = -1;
  Bytes measured_allocated_peak, predicted_allocated_peak, measured_reserved_peak, predicted_reserved_peak;
};

struct Comparison {
  std::string id;
  Run run;
  std::optional<Simulation> simulation;
  std::string error;                          // why there is none
  std::array<std::optional<double>, kQuantities> errors;  // predicted / measured - 1
  std::array<double, kQuantities> measured{}, predicted{};
  std::vector<PhaseComparison> phases;        // those that both have
  std::optional<StepTime> time;
  bool measured_oom = false;
  std::optional<bool> outcome_right;          // absent where the record has no limit to run into, and nothing ran
};
Comparison compare(const Record& record, const TimeCoefficients& coefficients);

struct QuantitySummary {
  std::int64_t runs = 0;
  double mean = 0, median = 0;   // of absolute errors
  double bias = 0;               // mean of signed errors
  double worst = 0;              // signed, largest in size
  std::string worst_id;
};
struct ComparisonSummary {
  std::array<QuantitySummary, kQuantities> quantities;
  std::int64_t runs = 0, failed = 0;
  std::int64_t outcomes_right = 0, outcomes_wrong = 0;
  std::vector<std::string> wrong;
};
ComparisonSummary summarize(const std::vector<Comparison>& comparisons);

// A limit on what a summary may say; exceeding it is a failure.
struct Tolerance {
  Quantity quantity = Quantity::AllocatedPeak;
  std::optional<double> mean, worst;
};
// One line for each tolerance that is exceeded: "allocated_peak: mean 0.7 % of 0.5 %".
std::vector<std::string> exceeded(const ComparisonSummary& summary, const std::vector<Tolerance>& tolerances);

}  // namespace zplan
