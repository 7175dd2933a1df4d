#include "io/json_text.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 100;

bool is_flat(const Json& value) {
  for (const auto& item : value) {
    if (item.is_structured()) return false;
  }
  return true;
}

std::string one_line(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += one_line(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// `used` columns of the line are taken already.
std::string text_of(const Json& value, const std::string& indent, std::size_t used) {
  if (!value.is_structured() || value.empty()) return value.dump();
  if (is_flat(value) && (value.is_array() || value.size() == 1)) {
    const std::string line = one_line(value);
    if (used + line.size() <= kWidth) return line;
  }
  const std::string inner = indent + "  ";
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += text.empty() ? "\n" : ",\n";
    const std::string name = value.is_object() ? Json(key).dump() + ": " : "";
    text += inner + name + text_of(item, inner, inner.size() + name.size());
  }
  text += "\n" + indent;
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

}  // namespace

std::string json_text(const Json& value) { return text_of(value, "", 0); }

}  // namespace zplan
