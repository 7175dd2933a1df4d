#include "io/ds_section.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/lower_case.h"

namespace zplan {
namespace {
using nlohmann::json;

// pydantic's lax bool: true/false, 0/1, and the strings it lists for them.
std::optional<bool> as_flag(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number() && (value == 0 || value == 1)) return value == 1;
  if (!value.is_string()) return std::nullopt;
  const std::string word = lower_case(value.get<std::string>());
  for (const char* yes : {"1", "true", "t", "yes", "y", "on"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"0", "false", "f", "no", "n", "off"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

// pydantic's lax int: integers, integral floats, booleans and strings of digits.
std::optional<std::int64_t> as_integer(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    return std::numeric_limits<std::int64_t>::max();  // Python's integers have no end; this is "no limit" anyway
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::floor(number) != number) return std::nullopt;
    if (number >= 9223372036854775807.0) return std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(number);
  }
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    const bool digits = !text.empty() && text.size() < 19 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    if (digits) return std::stoll(text);
  }
  return std::nullopt;
}

std::string shown(const json& value) { return value.is_structured() ? "an object or list" : value.dump(); }

}  // namespace

bool DsSection::given(const Field& field) const {
  const bool first = object_.given(field.key);
  const bool second = field.other != nullptr && object_.given(field.other);
  if (first && second) {
    object_.fail(field.other, std::string("the same field as ") + field.key + ", given under both names",
                 "keep one of the two");
  }
  return first || second;
}

std::string DsSection::key(const Field& field) const {
  return field.other != nullptr && object_.given(field.other) ? field.other : field.key;
}

bool DsSection::flag(const Field& field, bool fallback) const {
  if (!given(field)) return fallback;
  const std::string name = key(field);
  const json& value = object_.raw(name);
  if (const auto flag = as_flag(value)) return *flag;
  object_.fail(name, "expected true or false, found " + shown(value), "write true or false");
}

std::int64_t DsSection::integer(const Field& field, std::int64_t fallback, std::int64_t least) const {
  if (!given(field)) return fallback;
  const std::string name = key(field);
  const json& value = object_.raw(name);
  const auto number = as_integer(value);
  if (number && *number >= least) return *number;
  const std::string wanted = least == std::numeric_limits<std::int64_t>::min()
                                 ? std::string("an integer")
                                 : "an integer of " + std::to_string(least) + " or more";
  object_.fail(name, "expected " + wanted + ", found " + shown(value), "write " + wanted);
}

double DsSection::ratio(const Field& field, double fallback) const {
  if (!given(field)) return fallback;
  const std::string name = key(field);
  const json& value = object_.raw(name);
  if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1) return value.get<double>();
  object_.fail(name, "expected a number from 0 to 1, found " + shown(value), "write a number from 0 to 1");
}

std::string DsSection::text(const Field& field, const std::string& fallback) const {
  if (!given(field)) return fallback;
  const std::string name = key(field);
  const json& value = object_.raw(name);
  if (value.is_null()) return fallback;
  if (value.is_string()) return value.get<std::string>();
  object_.fail(name, "expected a string, found " + shown(value), "write a string");
}

bool DsSection::maybe_flag(const Field& field) const {
  return given(field) && object_.has(key(field)) && flag(field, false);
}

bool DsSection::has_section(const Field& field) const { return given(field) && object_.has(key(field)); }

}  // namespace zplan
