#include "io/calibration_report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "io/profile_reader.h"
#include "io/report_parts.h"
#include "io/text_table.h"
#include "units/text.h"

namespace zplan {
namespace {
using Json = nlohmann::ordered_json;

std::string number(const char* format, double x) {
  char out[48];
  std::snprintf(out, sizeof out, format, x);
  return out;
}

// "290 us", "1.2 GiB", "0.88", "6.8e+07 parameters/s", with "±30 %".
std::string value_text(const std::string& unit, const Coefficient& c) {
  std::string value;
  if (unit == "s")
    value = number("%.3g us", 1e6 * c.value);
  else if (unit == "bytes")
    value = text(Bytes{std::llround(c.value)}, 2);
  else
    value = number("%.3g", c.value);
  return value + number(" ±%.0f %%", 100 * c.relative_error);
}

// What a bare number counts: "of peak", "tokens"; nothing where the value says it.
std::string unit_text(const std::string& unit) { return unit == "s" || unit == "bytes" ? "" : unit; }

std::string signed_percent(double x) { return number("%+.1f %%", 100 * x); }

template <class Take>
void each(const CalibrationReport& r, const Take& take) {
  for (const auto& c : r.time.table) take(c);
  for (const auto& c : r.process) take(c);
}

std::string fitted_table(const CalibrationReport& r) {
  std::vector<std::vector<std::string>> rows;
  each(r, [&](const CalibratedCoefficient& c) {
    if (c.fitted)
      rows.push_back({c.name, unit_text(c.unit), value_text(c.unit, c.prior), value_text(c.unit, c.value),
                      std::to_string(c.measurements)});
  });
  if (rows.empty()) return "Nothing could be fitted.\n";
  return table_text({{"fitted", Align::Left},
                     {"", Align::Left},
                     {"prior", Align::Right},
                     {"fitted", Align::Right},
                     {"measurements", Align::Right}},
                    rows);
}

std::string prior_table(const CalibrationReport& r) {
  std::vector<std::vector<std::string>> rows;
  each(r, [&](const CalibratedCoefficient& c) {
    if (!c.fitted) rows.push_back({c.name, value_text(c.unit, c.prior), c.why_not, c.determined_by});
  });
  if (rows.empty()) return "";
  return "\n" + table_text({{"left at the prior", Align::Left},
                            {"prior", Align::Right},
                            {"why", Align::Left},
                            {"determined by", Align::Left}},
                           rows);
}

std::string steps_table(const CalibrationReport& r) {
  const TimeCalibration& t = r.time;
  if (t.steps.empty()) return "\nNo whole step was timed: how well the step time is predicted is not known.\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& s : t.steps) {
    rows.push_back({s.id, text(Seconds{s.measured_s}), signed_percent(s.before), signed_percent(s.after),
                    signed_percent(s.left_out), s.outlier ? "an outlier: counts little" : ""});
  }
  rows.push_back({"mean", "", percent(t.mean_before), percent(t.mean_after), percent(t.mean_left_out), ""});
  return "\n" + table_text({{"step of", Align::Left},
                            {"measured", Align::Right},
                            {"before", Align::Right},
                            {"after", Align::Right},
                            {"left out", Align::Right},
                            {"", Align::Left}},
                           rows);
}

std::string residual_text(const CalibrationReport& r) {
  const std::string of = std::to_string(r.compared) + (r.compared == 1 ? " record" : " records");
  if (r.compared == 0) return "no record could be simulated";
  if (!r.residual) return "the allocated peaks of all phases of " + of + " are predicted to within 1 MiB";
  const MemoryResidual& m = *r.residual;
  std::string where = m.phase;
  if (m.step >= 0) where += " of step " + std::to_string(m.step);
  if (m.micro_step > 0) where += ", micro-step " + std::to_string(m.micro_step);
  std::string out = "largest difference left in " + of + ": " + m.id + ", " + where + ": " + text(m.predicted) +
                    " predicted, " + text(m.measured) + " measured (" + text_signed(m.difference()) + "). ";
  out += m.stays ? "It is there when the phase ends, in which the simulation changes " +
                       std::string(name(m.component)) + " most"
                 : "It is gone when the phase ends: it belongs to " + std::string(name(m.component)) + ", " + m.event;
  return out + ". No coefficient stands for it: it is a fault of the simulator, to be reported.";
}

Json coefficient_json(const CalibratedCoefficient& c) {
  Json j = {{"name", c.name},
            {"unit", c.unit},
            {"prior", c.prior.value},
            {"prior_standard_error", c.prior.value * c.prior.relative_error},
            {"fitted", c.fitted},
            {"value", c.value.value},
            {"standard_error", c.value.value * c.value.relative_error},
            {"measurements", c.measurements}};
  if (!c.fitted) j["why_not"] = c.why_not, j["determined_by"] = c.determined_by;
  return j;
}

Json residual_json(const MemoryResidual& m) {
  Json j = {{"id", m.id}, {"phase", m.phase}};
  if (m.step >= 0) j["step"] = m.step, j["micro_step"] = m.micro_step;
  j["allocated_peak_measured_bytes"] = m.measured.count;
  j["allocated_peak_predicted_bytes"] = m.predicted.count;
  j["component"] = name(m.component);
  j["event"] = m.event;
  j["stays"] = m.stays;
  return j;
}

}  // namespace

std::string calibration_text(const CalibrationReport& r, const TextStyle& style) {
  const Paint paint(style);
  std::string out = r.gpu + ", DeepSpeed " + text(r.profile.deepspeed) + ", torch " + text(r.profile.torch) +
                    ", transformers " + text(r.profile.transformers) + ": " + std::to_string(r.time.steps.size()) +
                    " timed steps, " + std::to_string(r.time.measurements) + " measured times\n\n";
  out += fitted_table(r) + prior_table(r) + steps_table(r) + "\n";
  out += paragraph("Memory", residual_text(r), paint);
  if (!r.out.empty()) out += paragraph("Written", r.out, paint);
  return out + notes_text(r.notes, paint);
}

Json calibration_json(const CalibrationReport& r) {
  Json j = {{"schema", "zplan.calibration/1"},
            {"zplan_version", r.version},
            {"profile", profile_json(r.profile, r.version)},
            {"coefficients", Json::array()}};
  each(r, [&](const CalibratedCoefficient& c) { j["coefficients"].push_back(coefficient_json(c)); });
  j["steps"] = Json::array();
  for (const auto& s : r.time.steps) {
    j["steps"].push_back({{"id", s.id},
                          {"measured_seconds", s.measured_s},
                          {"error_before", s.before},
                          {"error_after", s.after},
                          {"error_left_out", s.left_out},
                          {"outlier", s.outlier}});
  }
  j["mean_error"] = {
      {"before", r.time.mean_before}, {"after", r.time.mean_after}, {"left_out", r.time.mean_left_out}};
  j["compared"] = r.compared;
  j["residual"] = r.residual ? residual_json(*r.residual) : Json(nullptr);
  j["written"] = r.out;
  j["notes"] = Json::array();
  for (const auto& n : r.notes) {
    j["notes"].push_back({{"level", n.level == Note::Level::Warning ? "warning" : "info"},
                          {"code", n.code},
                          {"text", n.text},
                          {"fix", n.fix}});
  }
  return j;
}

}  // namespace zplan
