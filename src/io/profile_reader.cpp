#include "io/profile_reader.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/json.h"
#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& e : coefficient_table()) names.emplace_back(e.name);
  for (const auto& e : process_table()) names.emplace_back(e.name);
  return names;
}

// Empty: there is no such coefficient.
std::string unit_of(const std::string& name) {
  for (const auto& e : coefficient_table()) {
    if (e.name == name) return std::string(e.unit);
  }
  for (const auto& e : process_table()) {
    if (e.name == name) return std::string(e.unit);
  }
  return "";
}

std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

ProfileEntry read_entry(const JsonObject& all, const std::string& name) {
  ProfileEntry e;
  e.name = name;
  const std::string unit = unit_of(name);
  if (unit.empty()) {
    const auto near = nearest(name, known_names(), 1);
    all.fail(name, "there is no such coefficient",
             near.empty() ? "calibrate again with this zplan" : "did you mean " + one_of(near) + "?");
  }
  const JsonObject object = all.object(name);
  e.unit = object.text("unit");
  if (e.unit != unit)
    object.fail("unit", "'" + e.unit + "', but zplan counts it in '" + unit + "'", "calibrate again with this zplan");
  e.value = object.number("value");
  const auto [lower, upper] = profile_bounds(name);
  if (e.value < lower || e.value > upper) {
    object.fail("value",
                short_number(e.value) + " is not between " + short_number(lower) + " and " + short_number(upper),
                "calibrate again: no fit gives that");
  }
  e.standard_error = object.number("standard_error");
  if (e.standard_error > e.value)
    object.fail("standard_error", "larger than the value", "calibrate again: such a value says nothing");
  e.measurements = object.positive("measurements");
  object.finish();
  return e;
}

}  // namespace

Profile read_profile(const std::string& text, const std::string& file) {
  const json value = parse_json(text, file);
  const JsonObject object(value, file);
  const std::string schema = object.text("schema");
  if (schema != "zplan.profile/1")
    object.fail("schema", "'" + schema + "' is not a profile", "name a file that zplan calibrate wrote");
  object.ignore("zplan_version");
  Profile p;
  p.gpu = object.text("gpu");
  const JsonObject versions = object.object("versions");
  p.deepspeed = parse_version(versions.text("deepspeed"), versions.where("deepspeed"));
  p.torch = parse_version(versions.text("torch"), versions.where("torch"));
  p.transformers = parse_version(versions.text("transformers"), versions.where("transformers"));
  versions.finish();
  const JsonObject coefficients = object.object("coefficients");
  for (const auto& [name, entry] : object.value("coefficients").items())
    p.coefficients.push_back(read_entry(coefficients, name));
  object.finish();
  return p;
}

nlohmann::ordered_json profile_json(const Profile& p, const std::string& zplan_version) {
  nlohmann::ordered_json j = {
      {"schema", "zplan.profile/1"},
      {"zplan_version", zplan_version},
      {"gpu", p.gpu},
      {"versions",
       {{"deepspeed", text(p.deepspeed)}, {"torch", text(p.torch)}, {"transformers", text(p.transformers)}}},
      {"coefficients", nlohmann::ordered_json::object()}};
  for (const auto& e : p.coefficients) {
    j["coefficients"][e.name] = {
        {"unit", e.unit}, {"value", e.value}, {"standard_error", e.standard_error}, {"measurements", e.measurements}};
  }
  return j;
}

}  // namespace zplan
