#include "io/validation_text.h"

#include <algorithm>
#include <cstdio>

#include "io/report_parts.h"
#include "io/text_table.h"
#include "step/component.h"

namespace zplan {
namespace {

using Row = std::vector<std::string>;

std::string share_text(double share) {
  char out[32];
  std::snprintf(out, sizeof out, "%g %%", 100 * share);
  return out;
}

std::string error_text(Bytes predicted, Bytes measured) {
  if (measured.count == 0) return "-";
  char out[32];
  std::snprintf(out, sizeof out, "%+.2f %%",
                100 * (static_cast<double>(predicted.count) / static_cast<double>(measured.count) - 1));
  return out;
}

std::string step_text(const PhaseComparison& p, const Run& run) {
  if (p.step < 0) return "";
  const bool several = run.ds.gradient_accumulation_steps > 1 && p.micro_step >= 0;
  return std::to_string(p.step) + (several ? "." + std::to_string(p.micro_step) : "");
}

std::string phases_text(const Comparison& c) {
  std::vector<Row> rows;
  for (const auto& p : c.phases) {
    rows.push_back({step_text(p, c.run), p.phase, gib(p.predicted_allocated_peak), gib(p.measured_allocated_peak),
                    error_text(p.predicted_allocated_peak, p.measured_allocated_peak), gib(p.predicted_reserved_peak),
                    gib(p.measured_reserved_peak), error_text(p.predicted_reserved_peak, p.measured_reserved_peak)});
  }
  return table_text({{"step", Align::Right},
                     {"phase", Align::Left},
                     {"allocated", Align::Right},
                     {"measured", Align::Right},
                     {"error", Align::Right},
                     {"reserved", Align::Right},
                     {"measured", Align::Right},
                     {"error", Align::Right}},
                    rows);
}

// What is alive at the predicted peak, and of what lasts between steps what DeepSpeed was seen to hold.
std::string components_text(const Simulation& s, const Record& record) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < kComponents; ++i) {
    const auto found = std::find_if(record.components.begin(), record.components.end(),
                                    [&](const MeasuredComponent& m) { return m.name == kComponentNames[i]; });
    const bool seen = found != record.components.end();
    if (s.peak.by_component[i].count == 0 && !seen) continue;
    std::string name = kComponentNames[i];
    std::replace(name.begin(), name.end(), '_', ' ');
    rows.push_back({name, gib(s.peak.by_component[i]), seen ? gib(found->bytes) : "-"});
  }
  rows.push_back({"allocated", gib(s.peak.allocated), "-"});
  return table_text(
      {{"component", Align::Left}, {"at the predicted peak", Align::Right}, {"held after the last step", Align::Right}},
      rows);
}

std::string tolerances_text(const ComparisonReport& r, const std::vector<Tolerance>& tolerances, const Paint& paint) {
  std::string said;
  for (const auto& t : tolerances) {
    said += (said.empty() ? "" : ", ") + std::string(kQuantityNames[static_cast<std::size_t>(t.quantity)]);
    if (t.mean) said += " " + share_text(*t.mean);
    if (t.worst) said += (t.mean ? ", worst " : " worst ") + share_text(*t.worst);
  }
  if (said.empty()) return "";
  return "tolerance   " + said + ": " + (r.exceeded.empty() ? paint.good("within") : paint.bad("exceeded")) + "\n";
}

}  // namespace

std::string validation_text(const ComparisonReport& report, const std::vector<Record>& records,
                            const std::vector<Tolerance>& tolerances, const TextStyle& style) {
  const Paint paint(style);
  std::string out;
  if (!report.runs.empty() && report.runs.front().simulation) {
    const Comparison& first = report.runs.front();
    out += paint.bold("GiB, predicted and measured, rank " + std::to_string(first.run.rank) + " of " +
                      std::to_string(first.run.world_size)) +
           "\n";
    out += phases_text(first) + "\n" + components_text(*first.simulation, records.front()) + "\n";
  }
  return out + comparison_text(report, style) + tolerances_text(report, tolerances, paint);
}

}  // namespace zplan
