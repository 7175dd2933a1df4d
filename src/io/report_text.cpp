#include "io/report_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "io/names.h"
#include "io/report_parts.h"
#include "io/text_table.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr std::size_t kIndent = 12;

std::string signed_percent(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%+.2f %%", 100 * x);
  return out;
}

std::string verdict(const Simulation& s, const Paint& paint) {
  if (s.oom) {
    return paint.bad("Runs out of memory") + " in " + moment_text(s.oom->at) + ": asked for " + text(s.oom->requested) +
           " with " + text(s.oom->free) + " left of the limit, " + text(s.oom->allocated) + " allocated, " +
           text(s.oom->reserved) + " reserved.";
  }
  const Bytes need = s.smallest_capacity + s.outside.total();
  const Bytes spare = s.device_capacity - need;
  const std::string sum = text(s.smallest_capacity) + " for torch's allocator + " + text(s.outside.total()) + " outside it of " + text(s.device_capacity);
  if (s.fits()) return paint.good("Fits") + " with " + text(spare) + " to spare: " + sum + ".";
  return paint.bad("Does not fit") + " by " + text(need - s.device_capacity) + ": " + sum + ".";
}

std::string gpu_bars(const Simulation& s, const Paint& paint) {
  const std::string which = s.world_size > 1 ? "GPU 0-" + std::to_string(s.world_size - 1) : "GPU 0";
  return paragraph(which, "", paint).substr(0, 0) + paint.bold(which) + std::string(which.size() < kIndent ? kIndent - which.size() : 1, ' ') +
         memory_bar(s.smallest_capacity, s.outside.total(), s.device_capacity, 60, paint) + "  " + gib(s.smallest_capacity) + " + " +
         gib(s.outside.total()) + " of " + text(s.device_capacity) + "\n";
}

std::string time_line(const StepTime& t, const Run& run) {
  return text(t.total()) + " a step (±" + percent(t.relative_error) + "), " +
         text_grouped(static_cast<std::int64_t>(std::llround(t.tokens_per_second_per_gpu()))) + " tokens/s a GPU; " + limiter_text(t, run);
}

std::string host_line(Bytes rank, Bytes pinned, const Cluster& cluster) {
  std::string out = text(rank * cluster.node.gpus, 0) + " a node (" + text(rank) + " a rank, " + text(pinned) + " of it pinned)";
  if (cluster.node.host_memory) out += " of " + text(*cluster.node.host_memory, 0);
  return out;
}

std::string assumptions_line(const std::vector<Assumption>& assumptions) {
  std::string out;
  for (const auto& a : assumptions) out += (out.empty() ? "" : ", ") + a.option + " " + a.value;
  return out;
}

// "ZeRO-3, micro-batch 1 x 16, full recomputation; expandable segments; sub_group_size 1e8".
std::string full_name(const Strategy& s) {
  std::string out = name(s);
  for (const auto& d : departures(s)) out += "; " + d;
  return out;
}

std::string rejection_line(const Rejection& r) {
  if (!r.cannot_run.empty()) return "cannot run: " + r.cannot_run;
  if (r.fits && r.slower < 1.005) return "fits and is as fast: " + r.limiter;
  if (r.fits) return "fits, but takes " + times(r.slower) + " the time: " + r.limiter;
  std::string out;
  if (r.host_over.count > 0) out = "host memory is short by " + text(r.host_over, 0) + " a node";
  if (r.over.count > 0 && r.host_over.count == 0) {
    std::string component = r.component;
    std::replace(component.begin(), component.end(), '_', ' ');
    out = text(r.over) + " too large (rank " + std::to_string(r.rank) + ") at " + r.moment + ", most of it " + component + " (" + text(r.component_bytes) + ")";
  }
  if (!r.change.empty()) {
    out += "; would fit with " + r.change.text;
    if (r.change.slower) out += ", at " + times(*r.change.slower) + " the time";
  }
  return out;
}

// The same in the width of a column: "ZeRO-1 + CPU optimizer, 1 x 16, recompute every-4, 2 settings".
std::string short_name(const Strategy& s) {
  std::string out = group_name(s.ds.zero.stage, Offload::None);
  switch (offload_of(s.ds.zero)) {
    case Offload::None: break;
    case Offload::Optimizer: out += " + CPU optimizer"; break;
    case Offload::OptimizerAndParameters: out += " + CPU optimizer and parameters"; break;
    case Offload::Nvme: out += " + NVMe"; break;
  }
  out += ", " + std::to_string(s.ds.train_micro_batch_size_per_gpu) + " x " + std::to_string(s.ds.gradient_accumulation_steps) +
         ", recompute " + recompute_name(s.workload.recompute);
  const auto n = departure_count(s);
  return n == 0 ? out : out + ", " + std::to_string(n) + (n == 1 ? " setting" : " settings");
}

std::string plans_table(const PlanReport& r) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const Plan& p, const std::string& mark) {
    const auto& c = p.candidate;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.2f", c.time.total().count);
    rows.push_back({short_name(c.strategy) + mark, seconds,
                    text_grouped(static_cast<std::int64_t>(std::llround(c.time.tokens_per_second_per_gpu()))), gib(p.headroom),
                    text(c.host.total() * r.question.cluster.node.gpus, 0)});
  };
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 1; i < r.plans.size() && i <= kMost; ++i) add(r.plans[i], r.plans[i].tied ? " (as fast)" : "");
  for (std::size_t i = 0; i < r.with_kernels.size(); ++i) add(r.with_kernels[i], " (--allow " + r.kernel_names[i] + ")");
  if (rows.empty()) return "";
  return table_text({{"other plans", Align::Left}, {"s/step", Align::Right}, {"tokens/s", Align::Right}, {"spare GiB", Align::Right}, {"host RAM", Align::Right}},
                    rows, kIndent);
}

std::string settings_text(const PlanReport& r, const Paint& paint) {
  std::string out;
  for (const auto& s : r.reasons) {
    std::string why = s.needed ? "without it " + gib(s.allocated) + " GiB allocated, " + gib(s.reserved) + " reserved: does not fit"
                               : "not needed for memory";
    if (s.time_ratio > 1.005) why += (s.needed ? "; " : ", but ") + times(s.time_ratio) + " the time without it";
    if (s.time_ratio < 0.995) why += "; costs " + times(1 / s.time_ratio) + " the time";
    out += paragraph(out.empty() ? "Settings" : "", s.setting + ": " + why, paint);
  }
  return out;
}

std::string measured_line(const MeasuredLike& m) {
  std::string out = m.id + " (" + std::to_string(m.world_size) + " ranks): " + gib(m.allocated_peak) + " GiB allocated, " + gib(m.reserved_peak) + " reserved";
  if (m.capacity_limit) out += std::string(m.ran ? ", ran" : ", ran out of memory") + " within " + gib(*m.capacity_limit) + " GiB";
  if (m.step) out += ", " + text(*m.step) + " a step of one micro-step";
  return out;
}

std::string nothing_fits(const PlanReport& r, const Paint& paint) {
  const auto& b = r.result.budget;
  std::string out = paragraph("Plan", paint.bad("Nothing fits") + " into " + text(b.limit()) + " a GPU (" + text(b.device) + " less " + text(b.outside) + " outside torch's allocator).", paint);
  bool first = true;
  for (const auto& c : r.changes) {
    out += paragraph(first ? "Would fit" : "", "with " + c.text, paint);
    first = false;
  }
  if (first) out += paragraph("Would fit", "nothing that zplan knows of: fewer tokens a sequence, or a smaller model", paint);
  return out;
}

std::string why_not_text(const PlanReport& r, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  std::string out;
  for (const auto& x : r.rejected) out += paragraph(out.empty() ? "Why not" : "", x.family + ": " + rejection_line(x), paint);
  return out;
}

}  // namespace

std::string simulation_text(const SimulationReport& r, const TextStyle& style) {
  const Paint paint(style);
  const auto& s = r.simulation;
  std::string out = paint.bold(subject(r.run, r.cluster)) + "\n";
  out += paragraph("Asked", full_name(strategy_of(r.run)) + "; rank " + std::to_string(s.rank) + " of " + std::to_string(s.world_size), paint);
  if (!r.assumptions.empty()) out += paragraph("Assumed", assumptions_line(r.assumptions), paint);
  out += "\n" + paragraph("Memory", verdict(s, paint), paint);
  out += paragraph("", "Peak in " + moment_text(s.peak.at), paint) + component_table(s.peak, paint);
  if (s.smallest_capacity.count > 0) out += gpu_bars(s, paint);
  out += "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& p : s.phases) {
    if (p.phase == Phase::Start) continue;
    const std::string step = p.step < 0 ? "" : std::to_string(p.step) + (r.run.ds.gradient_accumulation_steps > 1 ? "." + std::to_string(p.micro_step) : "");
    rows.push_back({step, name(p.phase), gib(p.figures.allocated), gib(p.figures.allocated_peak), gib(p.figures.reserved), gib(p.figures.reserved_peak)});
  }
  out += table_text({{"step", Align::Right}, {"phase", Align::Left}, {"allocated", Align::Right}, {"peak", Align::Right}, {"reserved", Align::Right}, {"peak GiB", Align::Right}}, rows, kIndent);
  if (!r.ranks.empty()) {
    std::string ranks;
    for (const auto& k : r.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(k.rank) + ": " + gib(k.allocated) + " / " + gib(k.capacity);
    out += paragraph("Ranks", "GiB allocated / needed, " + ranks + "; ranks not named are like one of these", paint);
  }
  out += paragraph("Host", host_line(r.host_peak(), r.host_pinned(), r.cluster), paint);
  if (r.nvme.count > 0) out += paragraph("NVMe", text(r.nvme, 0) + " a node", paint);
  if (r.time) out += paragraph("Time", time_line(*r.time, r.run), paint);
  auto notes = r.notes;
  notes.insert(notes.end(), s.notes.begin(), s.notes.end());
  return out + notes_text(notes, paint);
}

std::string plan_text(const PlanReport& r, const TextStyle& style) {
  const Paint paint(style);
  const auto& q = r.question;
  std::string out = paint.bold(subject(q.base, q.cluster) + ", " + std::to_string(q.global_batch) + " sequences a step") + "\n";
  if (!r.assumptions.empty()) out += paragraph("Assumed", assumptions_line(r.assumptions), paint);
  out += "\n";
  if (r.plans.empty()) {
    out += nothing_fits(r, paint) + "\n" + why_not_text(r, paint) + notes_text(r.notes, paint);
    return out;
  }
  const Plan& best = r.plans.front();
  const auto& s = r.best->simulation;
  out += paragraph("Plan", paint.bold(name(best.candidate.strategy)), paint);
  out += paragraph("Time", time_line(best.candidate.time, r.best->run), paint);
  out += paragraph("Memory", verdict(s, paint) + " Chance of running out: " + percent(best.oom_probability) + "." +
                               (best.candidate.safe ? "" : " " + paint.warn("Tight: less than the prediction's own error of " + text(r.result.budget.margin()) + " is left.")), paint);
  out += gpu_bars(s, paint);
  out += paragraph("Host", host_line(r.best->host_peak(), r.best->host_pinned(), q.cluster), paint);
  if (best.candidate.nvme.count > 0) out += paragraph("NVMe", text(best.candidate.nvme * q.cluster.node.gpus, 0) + " a node", paint);
  out += paragraph("Peak", moment_text(s.peak.at), paint) + component_table(s.peak, paint);
  out += settings_text(r, paint);
  bool first = true;
  for (const auto& m : r.measured) {
    out += paragraph(first ? "Measured" : "", measured_line(m), paint);
    first = false;
  }
  if (const auto table = plans_table(r); !table.empty()) out += "\n" + table;
  if (const auto lines = why_not_text(r, paint); !lines.empty()) out += "\n" + lines;
  const auto& n = r.result.counts;
  out += "\n" + paragraph("Searched", text_grouped(n.strategies) + " strategies: " + text_grouped(n.discarded_by_bound) + " too large by their bound, " +
                                          (n.discarded_by_host > 0 ? text_grouped(n.discarded_by_host) + " for the host, " : std::string()) +
                                          text_grouped(n.discarded_by_time) + " too slow, " + std::to_string(n.simulated) + " simulated event by event", paint);
  if (!r.out.empty()) {
    std::string files;
    for (const auto& f : r.files) files += (files.empty() ? "" : ", ") + f;
    out += paragraph("Written", r.out + ": " + files, paint);
  }
  return out + notes_text(r.notes, paint);
}

std::string comparison_text(const ComparisonReport& r, const TextStyle& style) {
  const Paint paint(style);
  std::vector<std::vector<std::string>> rows;
  const auto error = [](const Comparison& c, Quantity q) {
    const auto& e = c.errors[static_cast<std::size_t>(q)];
    return e ? signed_percent(*e) : std::string("-");
  };
  for (const auto& c : r.runs) {
    const std::string what = c.run.model.name.empty() ? "" : c.run.model.name + " z" + std::to_string(c.run.ds.zero.stage) + " N" + std::to_string(c.run.world_size);
    if (!c.simulation) {
      rows.push_back({c.id, what, "-", "-", "-", "-", "-", "-", "error: " + c.error.substr(0, c.error.find('\n'))});
      continue;
    }
    const std::string outcome = !c.outcome_right ? "" : *c.outcome_right ? (c.measured_oom ? "oom, right" : "") : (c.measured_oom ? "WRONG: ran out of memory" : "WRONG: it ran");
    rows.push_back({c.id, what, gib({static_cast<std::int64_t>(c.measured[0])}), error(c, Quantity::AllocatedPeak), error(c, Quantity::PhaseAllocatedPeak),
                    error(c, Quantity::ReservedPeak), error(c, Quantity::HostPinned), error(c, Quantity::StepSeconds), outcome});
  }
  std::string out = table_text({{"run", Align::Left}, {"what", Align::Left}, {"GiB", Align::Right}, {"allocated", Align::Right}, {"by phase", Align::Right},
                                {"reserved", Align::Right}, {"pinned", Align::Right}, {"step time", Align::Right}, {"", Align::Left}}, rows);
  out += "\n";
  rows.clear();
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const auto& s = r.summary.quantities[q];
    if (s.runs == 0) continue;
    rows.push_back({kQuantityNames[q], std::to_string(s.runs), signed_percent(s.mean).substr(1), signed_percent(s.median).substr(1), signed_percent(s.bias),
                    signed_percent(s.worst), s.worst_id});
  }
  out += table_text({{"quantity", Align::Left}, {"runs", Align::Right}, {"mean", Align::Right}, {"median", Align::Right}, {"bias", Align::Right}, {"worst", Align::Right}, {"in", Align::Left}}, rows);
  out += "outcomes    " + std::to_string(r.summary.outcomes_right) + " right, " + std::to_string(r.summary.outcomes_wrong) + " wrong";
  for (std::size_t i = 0; i < r.summary.wrong.size(); ++i) out += (i == 0 ? ": " : ", ") + r.summary.wrong[i];
  out += "\n";
  if (r.summary.failed > 0) out += "not simulated: " + std::to_string(r.summary.failed) + "\n";
  for (const auto& e : r.exceeded) out += paint.bad("exceeded") + "    " + e + "\n";
  return out;
}

}  // namespace zplan
