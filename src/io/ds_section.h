// One pydantic section of a ds_config (runtime/config_utils.py:DeepSpeedConfigModel): unknown keys are refused, a
// field answers to its name and to its alias but not to both, and values are coerced as pydantic does.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "io/json.h"

namespace zplan {

// A field's names: DeepSpeed's documented key first, the bare field name (if another) second.
struct Field {
  const char* key;
  const char* other = nullptr;
};

class DsSection {
 public:
  explicit DsSection(const JsonObject& object) : object_(object) {}

  // Whether the field is there, and under which of its names. Refuses both at once.
  bool given(const Field& field) const;
  std::string key(const Field& field) const;

  bool flag(const Field& field, bool fallback) const;
  bool maybe_flag(const Field& field) const;  // null or absent: false
  std::int64_t integer(const Field& field, std::int64_t fallback, std::int64_t least = 0) const;
  double ratio(const Field& field, double fallback) const;  // in [0, 1]
  std::string text(const Field& field, const std::string& fallback) const;
  // A section inside, or null: no such section.
  bool has_section(const Field& field) const;

  const JsonObject& object() const { return object_; }

 private:
  JsonObject object_;
};

}  // namespace zplan
