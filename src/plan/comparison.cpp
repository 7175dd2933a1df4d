#include "plan/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "plan/timed_run.h"
#include "spec/error.h"

namespace zplan {
namespace {

struct Peaks {
  std::int64_t allocated = 0, reserved = 0, pinned = 0;
};

// Peaks before init hold the process's start-up in some records.
bool counts(const std::string& phase) { return phase == "init" || phase == "forward" || phase == "backward" || phase == "step" || phase == "eval"; }

const PhaseMemory* matching(const Simulation& s, const MeasuredPhase& m) {
  for (const auto& p : s.phases) {
    if (name(p.phase) == m.phase && p.step == m.step && (m.micro_step < 0 || p.micro_step == m.micro_step)) return &p;
  }
  return nullptr;
}

void set(Comparison& c, Quantity quantity, double measured, double predicted) {
  const auto i = static_cast<std::size_t>(quantity);
  c.measured[i] = measured;
  c.predicted[i] = predicted;
  if (measured > 0) c.errors[i] = predicted / measured - 1;
}

void compare_phases(const Record& record, Comparison& c) {
  Peaks measured, predicted;
  double allocated_errors = 0, reserved_errors = 0;
  for (const auto& m : record.phases) {
    if (!counts(m.phase) || m.reserved_peak.count == 0) continue;  // 0: run without a GPU, to try the program
    const PhaseMemory* p = matching(*c.simulation, m);
    if (!p) continue;
    c.phases.push_back({m.phase, m.step, m.micro_step, m.allocated_peak, p->figures.allocated_peak, m.reserved_peak, p->figures.reserved_peak});
    measured.allocated = std::max(measured.allocated, m.allocated_peak.count);
    measured.reserved = std::max(measured.reserved, m.reserved_peak.count);
    measured.pinned = std::max(measured.pinned, m.host_pinned.count);
    predicted.allocated = std::max(predicted.allocated, p->figures.allocated_peak.count);
    predicted.reserved = std::max(predicted.reserved, p->figures.reserved_peak.count);
    predicted.pinned = std::max(predicted.pinned, p->host_pinned.count);
    const auto error = [](Bytes is, Bytes was) { return std::abs(static_cast<double>(is.count) / static_cast<double>(was.count) - 1); };
    allocated_errors += error(p->figures.allocated_peak, m.allocated_peak);
    reserved_errors += error(p->figures.reserved_peak, m.reserved_peak);
  }
  if (c.phases.empty()) return;
  const double n = static_cast<double>(c.phases.size());
  set(c, Quantity::AllocatedPeak, static_cast<double>(measured.allocated), static_cast<double>(predicted.allocated));
  set(c, Quantity::ReservedPeak, static_cast<double>(measured.reserved), static_cast<double>(predicted.reserved));
  c.errors[static_cast<std::size_t>(Quantity::PhaseAllocatedPeak)] = allocated_errors / n;
  c.errors[static_cast<std::size_t>(Quantity::PhaseReservedPeak)] = reserved_errors / n;
  // The Trainer's data loader pins a few bytes in any run.
  if (measured.pinned > 1'000'000) set(c, Quantity::HostPinned, static_cast<double>(measured.pinned), static_cast<double>(predicted.pinned));
}

// Over all phases: the load of the model is often the highest.
void compare_host(const Record& record, Comparison& c) {
  Bytes measured, predicted;
  for (const auto& m : record.phases) {
    const PhaseMemory* p = matching(*c.simulation, m);
    if (!p || m.host_rss_peak.count == 0) continue;
    measured = std::max(measured, m.host_rss_peak);
    predicted = std::max(predicted, p->host_peak);
  }
  if (measured.count > 0) set(c, Quantity::HostPeak, static_cast<double>(measured.count), static_cast<double>(predicted.count));
}

void compare_time(const Record& record, const TimeCoefficients& coefficients, Comparison& c) {
  const auto measured = whole_step(record);
  if (!measured || !record.machine) return;
  c.time = predict_step_time(record.run, *record.machine, coefficients);
  set(c, Quantity::StepSeconds, measured->count, c.time->total().count);
}

std::string percent(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f %%", 100 * x);
  return out;
}

}  // namespace

Comparison compare(const Record& record, const TimeCoefficients& coefficients) {
  Comparison c;
  c.id = record.id;
  c.run = record.run;
  c.measured_oom = record.outcome == Record::Outcome::OutOfMemory;
  try {
    c.simulation = simulate(record.run, Detail::Components);
    compare_phases(record, c);
    compare_host(record, c);
    compare_time(record, coefficients, c);
    c.outcome_right = c.simulation->oom.has_value() == c.measured_oom;
  } catch (const InputError& e) {
    c.error = e.what();
  }
  return c;
}

ComparisonSummary summarize(const std::vector<Comparison>& comparisons) {
  ComparisonSummary s;
  s.runs = static_cast<std::int64_t>(comparisons.size());
  for (const auto& c : comparisons) {
    if (!c.error.empty()) ++s.failed;
    if (!c.outcome_right) continue;
    ++(*c.outcome_right ? s.outcomes_right : s.outcomes_wrong);
    if (!*c.outcome_right) s.wrong.push_back(c.id);
  }
  for (std::size_t q = 0; q < kQuantities; ++q) {
    auto& out = s.quantities[q];
    std::vector<double> sizes;
    for (const auto& c : comparisons) {
      if (!c.errors[q]) continue;
      const double e = *c.errors[q];
      sizes.push_back(std::abs(e));
      out.mean += std::abs(e);
      out.bias += e;
      if (std::abs(e) > std::abs(out.worst) || out.worst_id.empty()) out.worst = e, out.worst_id = c.id;
    }
    out.runs = static_cast<std::int64_t>(sizes.size());
    if (sizes.empty()) continue;
    out.mean /= static_cast<double>(sizes.size());
    out.bias /= static_cast<double>(sizes.size());
    std::sort(sizes.begin(), sizes.end());
    const auto half = sizes.size() / 2;
    out.median = sizes.size() % 2 == 1 ? sizes[half] : (sizes[half - 1] + sizes[half]) / 2;
  }
  return s;
}

std::vector<std::string> exceeded(const ComparisonSummary& summary, const std::vector<Tolerance>& tolerances) {
  std::vector<std::string> out;
  for (const auto& t : tolerances) {
    const auto& q = summary.quantities[static_cast<std::size_t>(t.quantity)];
    const std::string name = kQuantityNames[static_cast<std::size_t>(t.quantity)];
    if (q.runs == 0) {
      out.push_back(name + ": no record has it");
      continue;
    }
    if (t.mean && q.mean > *t.mean) out.push_back(name + ": mean " + percent(q.mean) + ", tolerated " + percent(*t.mean));
    if (t.worst && std::abs(q.worst) > *t.worst) {
      out.push_back(name + ": worst " + percent(q.worst) + " (" + q.worst_id + "), tolerated " + percent(*t.worst));
    }
  }
  return out;
}

}  // namespace zplan
