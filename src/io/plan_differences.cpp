#include "io/plan_differences.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/text_table.h"
#include "spec/error.h"
#include "units/text.h"
#include "units/units.h"

namespace zplan {
namespace {
using nlohmann::json;

json read_plan(const FileSource& files, const std::string& path) {
  json plan = parse_json(files.read(path), path);
  const JsonObject root(plan, path);
  if (root.text("schema") != "zplan.plan/1") {
    root.fail("schema", "'" + root.text("schema") + "' is not zplan.plan/1", "name the plan.json of two folders that `zplan plan --out` wrote");
  }
  root.object("inputs");
  return plan;
}

// What a plan was asked for and what it chose, by path. Texts made from other keys are left out.
json settings_of(const json& plan) {
  json out = {{"inputs", plan.at("inputs")}, {"global_batch", plan.value("global_batch", json())}};
  if (plan.contains("best") && plan["best"].is_object()) {
    out["chosen"] = plan["best"].at("strategy");  // name_of() has looked
    for (const char* derived : {"name", "departures", "offload", "stage", "micro_batch", "grad_accum"}) out["chosen"].erase(derived);
  }
  return out.flatten();
}

std::string short_key(std::string pointer) {
  for (const std::string prefix : {"/chosen/", "/"}) {
    if (pointer.rfind(prefix, 0) == 0) return pointer.substr(prefix.size());
  }
  return pointer;
}

std::vector<PlanDifference> settings_that_differ(const json& a, const json& b) {
  const json first = settings_of(a), second = settings_of(b);
  std::vector<PlanDifference> out;
  const auto value = [](const json& of, const std::string& key) { return of.contains(key) ? of[key].dump() : std::string("-"); };
  json keys = first;
  keys.update(second);
  for (const auto& [key, unused] : keys.items()) {
    if (value(first, key) != value(second, key)) out.push_back({short_key(key), {value(first, key), value(second, key)}});
  }
  return out;
}

std::string name_of(const json& plan, const std::string& file) {
  if (!plan.contains("best") || plan["best"].is_null()) return "";
  return JsonObject(plan["best"], file + ":/best").object("strategy").text("name");
}

std::vector<PlanFigure> figures_of(const std::array<json, 2>& plans, const std::array<std::string, 2>& files) {
  struct Row {
    const char *object, *key;
    bool bytes;
  };
  constexpr Row rows[] = {{"time", "step_seconds", false},       {"time", "tokens_per_second_per_gpu", false},
                          {"peak", "allocated_bytes", true},     {"peak", "reserved_bytes", true},
                          {"", "smallest_capacity_bytes", true}, {"", "headroom_bytes", true},
                          {"host", "per_node_peak_bytes", true}, {"host", "pinned_bytes", true}};
  std::vector<PlanFigure> out;
  for (const auto& row : rows) {
    PlanFigure figure{row.key, row.bytes, {}};
    for (std::size_t i = 0; i < 2; ++i) {
      const JsonObject best(plans[i].at("best"), files[i] + ":/best");
      const JsonObject part = *row.object ? best.object(row.object) : best;
      figure.values[i] = row.bytes ? static_cast<double>(part.integer(row.key)) : part.number(row.key);
    }
    out.push_back(figure);
  }
  return out;
}

std::string figure_text(const PlanFigure& figure, double value) {
  if (figure.bytes) return text(Bytes{static_cast<std::int64_t>(value)});
  char out[32];
  std::snprintf(out, sizeof out, figure.name == "step_seconds" ? "%.2f" : "%.0f", value);
  return out;
}

std::string change_text(const PlanFigure& figure) {
  const double difference = figure.values[1] - figure.values[0];
  if (difference == 0) return "same";
  if (figure.bytes) return text_signed(Bytes{static_cast<std::int64_t>(difference)});
  char out[32];
  std::snprintf(out, sizeof out, "%+.1f %%", 100 * difference / figure.values[0]);
  return out;
}

}  // namespace

PlanDifferences plan_differences(const FileSource& source, const std::string& first, const std::string& second) {
  PlanDifferences d;
  d.files = {first, second};
  const std::array<json, 2> plans = {read_plan(source, first), read_plan(source, second)};
  for (std::size_t i = 0; i < 2; ++i) d.names[i] = name_of(plans[i], d.files[i]);
  d.settings = settings_that_differ(plans[0], plans[1]);
  if (d.names[0].empty() || d.names[1].empty()) return d;
  d.figures = figures_of(plans, d.files);
  // By tokens, since the global batch may differ.
  const auto& tokens = d.figures[1].values;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!(tokens[i] > 0)) throw InputError(d.files[i] + ":/best/time/tokens_per_second_per_gpu", "is 0", "plan again");
  }
  d.time_ratio = tokens[0] / tokens[1];
  double uncertainty = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    uncertainty = std::max(uncertainty, JsonObject(plans[i]["best"]["time"], d.files[i] + ":/best/time").number("relative_error"));
  }
  d.tied = std::abs(d.time_ratio - 1) <= uncertainty;
  return d;
}

std::string plan_differences_text(const PlanDifferences& d) {
  std::string out;
  for (std::size_t i = 0; i < 2; ++i) {
    out += std::string(i == 0 ? "A  " : "B  ") + d.files[i] + "\n   " + (d.names[i].empty() ? "nothing fits" : d.names[i]) + "\n";
  }
  if (!d.figures.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& f : d.figures) rows.push_back({f.name, figure_text(f, f.values[0]), figure_text(f, f.values[1]), change_text(f)});
    out += "\n" + table_text({{"figures", Align::Left}, {"A", Align::Right}, {"B", Align::Right}, {"B against A", Align::Right}}, rows);
    char line[120];
    std::snprintf(line, sizeof line, "\nFor as many tokens B takes %.2fx the time of A%s.\n", d.time_ratio,
                  d.tied ? ": a tie, less than the predictions' uncertainty" : "");
    out += line;
  }
  if (d.settings.empty()) return out + "\nNothing was asked or chosen differently.\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& s : d.settings) rows.push_back({s.key, s.values[0], s.values[1]});
  return out + "\n" + table_text({{"what differs", Align::Left}, {"A", Align::Left}, {"B", Align::Left}}, rows);
}

nlohmann::ordered_json plan_differences_json(const PlanDifferences& d) {
  using Json = nlohmann::ordered_json;
  Json out = {{"schema", "zplan.plan-differences/1"}, {"files", d.files}, {"strategies", Json::array()}, {"figures", Json::object()},
              {"time_ratio", d.time_ratio > 0 ? Json(d.time_ratio) : Json(nullptr)}, {"tied", d.tied}, {"settings", Json::object()}};
  for (const auto& name : d.names) out["strategies"].push_back(name.empty() ? Json(nullptr) : Json(name));
  for (const auto& f : d.figures) out["figures"][f.name] = f.values;
  for (const auto& s : d.settings) out["settings"][s.key] = s.values;
  return out;
}

}  // namespace zplan
