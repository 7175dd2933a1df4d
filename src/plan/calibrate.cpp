#include "plan/calibrate.h"

#include <algorithm>
#include <cmath>

#include "plan/determined_by.h"
#include "plan/parallel.h"
#include "time/step_time.h"

namespace zplan {
namespace {

// How far a whole step and a synchronised phase repeat on one machine (docs/calibration.md#measurements).
constexpr double step_noise = 0.08, phase_noise = 0.15;
// A prior is not believed beyond this many of its errors.
constexpr double believed = 4;
// With fewer whole steps the scatter of their errors says little.
constexpr std::size_t enough_steps = 6;
constexpr double least_unexplained = 0.02;  // no GPU repeats a step more exactly than that

const std::vector<CoefficientEntry>& entries() {
  static const std::vector<CoefficientEntry> all = [] {
    std::vector<CoefficientEntry> list;
    for (const auto& e : coefficient_table()) {
      if (e.member != &TimeCoefficients::unexplained_share) list.push_back(e);
    }
    return list;
  }();
  return all;
}

std::vector<FitParameter> parameters() {
  const TimeCoefficients prior;
  std::vector<FitParameter> list;
  for (const auto& e : entries()) {
    const Coefficient c = prior.*e.member;
    const auto [lower, upper] = coefficient_bounds(e);
    list.push_back({std::string(e.name), c.value, c.relative_error, lower, upper});
  }
  return list;
}

TimeCoefficients with_values(const std::vector<double>& values) {
  TimeCoefficients c;
  for (std::size_t i = 0; i < values.size(); ++i) (c.*entries()[i].member).value = values[i];
  return c;
}

Fit fit_of(const std::vector<const MeasuredGroup*>& groups) {
  return fit(parameters(), [&](const std::vector<double>& values) {
    const TimeCoefficients c = with_values(values);
    std::vector<double> r;
    for (const MeasuredGroup* g : groups) {
      const std::vector<double> predicted = g->predict(c);
      for (std::size_t i = 0; i < predicted.size(); ++i)
        r.push_back(std::log(predicted[i] / g->seconds[i]) / g->noise[i]);
    }
    return r;
  });
}

TimeCoefficients coefficients_of(const Fit& f) {
  TimeCoefficients c;
  for (std::size_t i = 0; i < f.parameters.size(); ++i) {
    if (f.parameters[i].fitted()) c.*entries()[i].member = {f.parameters[i].value, f.parameters[i].relative_error};
  }
  return c;
}

double error_of(const MeasuredGroup& g, const TimeCoefficients& c) {
  return g.predict(c)[*g.whole] / g.seconds[*g.whole] - 1;
}

std::string why_not(const FittedParameter& p) {
  switch (p.why) {
    case Undetermined::No:
      return "";
    case Undetermined::NoEffect:
      return "no measurement depends on it";
    case Undetermined::Weak:
      return "the measurements say less than the prior";
    case Undetermined::Correlated:
      return "cannot be told from " + p.with;
    case Undetermined::AtBound:
      return "would leave its bounds: another cause is in the measurements";
  }
  return "";
}

CalibratedCoefficient row(const CoefficientEntry& e, const FittedParameter& p) {
  CalibratedCoefficient c;
  c.name = e.name;
  c.unit = e.unit;
  c.prior = TimeCoefficients{}.*e.member;
  c.fitted = p.fitted();
  c.value = c.fitted ? Coefficient{p.value, p.relative_error} : c.prior;
  c.measurements = static_cast<std::int64_t>(p.measurements);
  c.why_not = why_not(p);
  if (!c.fitted) c.determined_by = determined_by(c.name);
  return c;
}

// Each whole step with the coefficients that the other groups give.
void leave_one_out(const std::vector<MeasuredGroup>& groups, TimeCalibration& out) {
  std::vector<const MeasuredGroup*> timed;
  for (const auto& g : groups) {
    if (g.whole) timed.push_back(&g);
  }
  in_parallel(timed.size(), 2, [&](std::size_t i) {
    std::vector<const MeasuredGroup*> others;
    for (const auto& g : groups) {
      if (&g != timed[i]) others.push_back(&g);
    }
    out.steps[i].left_out = error_of(*timed[i], coefficients_of(fit_of(others)));
  });
}

// The scatter of the whole steps about the fit, widened for the coefficients that were fitted to them.
void set_unexplained(TimeCalibration& out) {
  const CoefficientEntry& e = coefficient_table().back();
  CalibratedCoefficient c;
  c.name = e.name;
  c.unit = e.unit;
  c.prior = c.value = TimeCoefficients{}.unexplained_share;
  c.measurements = static_cast<std::int64_t>(out.steps.size());
  if (out.steps.size() >= enough_steps) {
    double squares = 0, n = 0;
    for (const auto& s : out.steps) {
      if (!s.outlier) squares += s.after * s.after, ++n;
    }
    const auto fitted = std::count_if(out.table.begin(), out.table.end(), [](const auto& r) { return r.fitted; });
    const double spent = static_cast<double>(fitted) / static_cast<double>(out.measurements);
    const double left = std::sqrt(squares / std::max(1.0, n * (1 - spent)));
    c.value = {std::clamp(left, least_unexplained, coefficient_bounds(e).second), 1 / std::sqrt(2 * std::max(1.0, n))};
    c.fitted = true;
  } else {
    c.why_not = "too few whole steps were timed";
    c.determined_by = determined_by(c.name);
  }
  out.coefficients.unexplained_share = c.value;
  out.table.push_back(c);
}

}  // namespace

std::pair<double, double> coefficient_bounds(const CoefficientEntry& e) {
  const Coefficient c = TimeCoefficients{}.*e.member;
  const double reach = std::exp(believed * c.relative_error);
  const bool share = e.unit.rfind("of ", 0) == 0;  // of a peak, of a part: never more than all of it
  return {c.value / reach, share ? std::min(c.value * reach, 1.0) : c.value * reach};
}

MeasuredGroup measured_group(const TimedRun& t) {
  MeasuredGroup g;
  g.name = t.id;
  std::vector<double StepTime::*> phases;
  const auto add = [&](const std::optional<double>& seconds, double StepTime::*phase) {
    if (!seconds) return;
    phases.push_back(phase);
    g.seconds.push_back(*seconds);
    g.noise.push_back(phase_noise);
  };
  add(t.forward_s, &StepTime::forward_s);
  add(t.backward_s, &StepTime::last_backward_s);
  add(t.step_s, &StepTime::step_s);
  if (t.loop_s) {
    g.whole = g.seconds.size();
    g.seconds.push_back(*t.loop_s);
    g.noise.push_back(step_noise);
  }
  g.predict = [run = t.run, cluster = t.cluster, phases, whole = t.loop_s.has_value()](const TimeCoefficients& c) {
    const StepTime time = predict_step_time(run, cluster, c);
    std::vector<double> seconds;
    for (const auto phase : phases) seconds.push_back(time.*phase);
    if (whole) seconds.push_back(time.total().count);
    return seconds;
  };
  return g;
}

TimeCalibration calibrate_time(const std::vector<MeasuredGroup>& groups) {
  TimeCalibration out;
  std::vector<const MeasuredGroup*> all;
  for (const auto& g : groups) {
    all.push_back(&g);
    out.measurements += static_cast<std::int64_t>(g.seconds.size());
  }
  const Fit f = fit_of(all);
  out.coefficients = coefficients_of(f);
  for (std::size_t i = 0; i < f.parameters.size(); ++i) out.table.push_back(row(entries()[i], f.parameters[i]));

  std::size_t first = 0;  // of the group's residuals
  for (const auto& g : groups) {
    if (g.whole) {
      StepErrors s;
      s.id = g.name;
      s.measured_s = g.seconds[*g.whole];
      s.before = error_of(g, TimeCoefficients{});
      s.after = error_of(g, out.coefficients);
      s.outlier = f.weights[first + *g.whole] < 0.5;
      out.steps.push_back(s);
    }
    first += g.seconds.size();
  }
  leave_one_out(groups, out);
  for (const auto& s : out.steps) {
    const double n = static_cast<double>(out.steps.size());
    out.mean_before += std::abs(s.before) / n;
    out.mean_after += std::abs(s.after) / n;
    out.mean_left_out += std::abs(s.left_out) / n;
  }
  set_unexplained(out);
  return out;
}

}  // namespace zplan
