#include "plan/residual.h"

#include <algorithm>
#include <cstdlib>

namespace zplan {
namespace {

// What both have of one phase: its place in the simulation, and predicted minus measured.
struct Pair {
  std::size_t phase = 0;
  const MeasuredPhase* measured = nullptr;
  Bytes at_peak, at_end;
};

std::vector<Pair> pairs(const Record& record, const Simulation& s) {
  std::vector<Pair> out;
  for (const MeasuredPhase& m : record.phases) {
    // Peaks before init hold the process's start-up in some records.
    if (m.phase == "start" || m.phase == "load" || m.phase == "oom") continue;
    for (std::size_t i = 0; i < s.phases.size(); ++i) {
      const PhaseMemory& p = s.phases[i];
      if (name(p.phase) != m.phase || p.step != m.step || (m.micro_step >= 0 && p.micro_step != m.micro_step))
        continue;
      out.push_back({i, &m, p.figures.allocated_peak - m.allocated_peak, p.figures.allocated - m.allocated});
      break;
    }
  }
  return out;
}

std::int64_t size(Bytes b) { return std::abs(b.count); }

Component most_changed(const PhaseParts& parts) {
  std::size_t most = 0;
  const auto change = [&](std::size_t i) { return size(parts.at_end[i] - parts.at_begin[i]); };
  for (std::size_t i = 1; i < kComponents; ++i) {
    if (change(i) > change(most)) most = i;
  }
  return static_cast<Component>(most);
}

MemoryResidual attributed(const Record& record, const std::vector<Pair>& all, const Pair& worst) {
  // A difference that is there when the phase ends began in the first phase that left half of it.
  const auto left_half = [&](const Pair& p) { return 2 * size(p.at_end) >= size(worst.at_peak); };
  MemoryResidual r;
  r.id = record.id;
  r.stays = left_half(worst);
  const Pair& from = r.stays ? *std::find_if(all.begin(), all.end(), left_half) : worst;
  r.phase = from.measured->phase;
  r.step = from.measured->step;
  r.micro_step = from.measured->micro_step;
  r.measured = from.measured->allocated_peak;
  r.predicted = r.measured + from.at_peak;
  const PhaseParts parts = phase_parts(record.run, from.phase);
  r.component = r.stays ? most_changed(parts) : parts.event_component;
  r.event = parts.event;
  return r;
}

}  // namespace

std::optional<MemoryResidual> largest_residual(const std::vector<Record>& records,
                                               const std::vector<Comparison>& comparisons, Bytes negligible) {
  std::size_t of = 0;
  Bytes largest = negligible;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!comparisons[i].simulation) continue;
    for (const Pair& p : pairs(records[i], *comparisons[i].simulation)) {
      if (size(p.at_peak) > largest.count) largest = {size(p.at_peak)}, of = i + 1;
    }
  }
  if (of == 0) return std::nullopt;
  const Record& record = records[of - 1];
  const std::vector<Pair> all = pairs(record, *comparisons[of - 1].simulation);
  const auto worst = std::max_element(all.begin(), all.end(),
                                      [](const Pair& a, const Pair& b) { return size(a.at_peak) < size(b.at_peak); });
  return attributed(record, all, *worst);
}

}  // namespace zplan
