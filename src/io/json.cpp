#include "io/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;

// Of lists and objects in each other. Copying and printing a value takes stack for each.
constexpr int deepest = 200;

// Where the reader stands while it parses: the keys of every open object, to see one that comes twice.
struct OpenObject {
  std::set<std::string> keys;
  std::string at;  // key being read
};

std::string line_and_column(const std::string& text, std::size_t byte) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    if (text[i] == '\n') { ++line; column = 1; } else { ++column; }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

[[noreturn]] void not_json(const std::string& text, const std::string& file, const json::parse_error& error) {
  const std::string message = error.what();
  const std::string place = line_and_column(text, error.byte);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw InputError(file, "the file is empty", "write a JSON object into it");
  }
  if (error.byte > text.size()) {
    throw InputError(file, "the JSON text ends too early, at " + place,
                     "the file looks cut off: copy or download it again");
  }
  const std::size_t detail = message.find(" - ");
  throw InputError(file, "not valid JSON at " + place +
                             (detail == std::string::npos ? std::string() : ": " + message.substr(detail + 3)),
                   "mend the JSON there");
}

// The value as an integer if it is one, also written as 5e8. Floats beyond 2^53 no longer name one integer.
std::optional<std::int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) > 9007199254740992.0) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

std::string pointer_token(const std::string& key) {
  std::string token;
  for (const char c : key) {
    if (c == '~') token += "~0";
    else if (c == '/') token += "~1";
    else token += c;
  }
  return token;
}

std::string place(const std::string& file, const std::string& pointer) {
  if (pointer.empty()) return file;
  return file.find(":/") == std::string::npos ? file + ":" + pointer : file + pointer;
}

json parse_json(const std::string& text, const std::string& file, Comments comments) {
  std::vector<OpenObject> open;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > deepest) {
      throw InputError(file, "lists and objects stand more than " + std::to_string(deepest) + " deep in each other",
                       "no file of zplan's is so: name another");
    }
    if (event == json::parse_event_t::object_start) {
      open.push_back({});
    } else if (event == json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == json::parse_event_t::key) {
      open.back().at = parsed.get<std::string>();
      if (!open.back().keys.insert(open.back().at).second) {
        std::string pointer;
        for (const OpenObject& object : open) pointer += "/" + pointer_token(object.at);
        throw InputError(place(file, pointer), "the key stands twice in the same object", "remove one of the two");
      }
    }
    return true;
  };
  try {
    return json::parse(text, watch, true, comments == Comments::Skipped);
  } catch (const json::parse_error& error) {
    not_json(text, file, error);
  } catch (const json::out_of_range& error) {  // a number too large for a double
    throw InputError(file, std::string("a number is out of range: ") + error.what(), "write a smaller number");
  }
}

JsonObject::JsonObject(const json& value, const std::string& file) : JsonObject(value, file, "") {}

JsonObject::JsonObject(const json& value, const std::string& file, const std::string& pointer)
    : value_(&value), file_(file), pointer_(pointer) {
  if (!value.is_object()) {
    throw InputError(where(), "expected an object, found " + shown(value), "write it as { \"key\": value, ... }");
  }
}

std::string JsonObject::where() const { return place(file_, pointer_); }
std::string JsonObject::where(const std::string& key) const { return place(file_, pointer_ + "/" + pointer_token(key)); }

void JsonObject::fail(const std::string& key, const std::string& what, const std::string& fix) const {
  throw InputError(where(key), what, fix);
}

void JsonObject::wrong(const std::string& key, const char* wanted) const {
  fail(key, std::string("expected ") + wanted + ", found " + shown(value_->at(key)),
       std::string("write ") + wanted);
}

const json* JsonObject::find(const std::string& key) const {
  known_.insert(key);
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const json& JsonObject::need(const std::string& key) const {
  if (const json* found = find(key)) return *found;
  fail(key, "the key is missing", "add \"" + key + "\"");
}

bool JsonObject::has(const std::string& key) const { return find(key) != nullptr; }
bool JsonObject::given(const std::string& key) const { return find(key) != nullptr || value_->contains(key); }
const json& JsonObject::value(const std::string& key) const { return need(key); }
const json& JsonObject::raw(const std::string& key) const {
  known_.insert(key);
  return value_->at(key);
}
void JsonObject::ignore(const std::string& key) const { known_.insert(key); }

std::int64_t JsonObject::integer(const std::string& key) const {
  if (const auto n = as_integer(need(key))) return *n;
  wrong(key, "an integer");
}
std::int64_t JsonObject::count(const std::string& key) const {
  const auto n = as_integer(need(key));
  if (n && *n >= 0) return *n;
  wrong(key, "an integer of 0 or more");
}
std::int64_t JsonObject::positive(const std::string& key) const {
  const auto n = as_integer(need(key));
  if (n && *n > 0) return *n;
  wrong(key, "an integer of 1 or more");
}
double JsonObject::number(const std::string& key) const {
  const json& found = need(key);
  if (found.is_number() && found.get<double>() >= 0 && std::isfinite(found.get<double>())) return found.get<double>();
  wrong(key, "a number of 0 or more");
}
bool JsonObject::flag(const std::string& key) const {
  const json& found = need(key);
  if (found.is_boolean()) return found.get<bool>();
  wrong(key, "true or false");
}
std::string JsonObject::text(const std::string& key) const {
  const json& found = need(key);
  if (found.is_string()) return found.get<std::string>();
  wrong(key, "a string");
}
std::vector<std::string> JsonObject::texts(const std::string& key) const {
  std::vector<std::string> list;
  const json* found = find(key);
  if (found == nullptr) return list;
  if (!found->is_array()) wrong(key, "a list of strings");
  for (const json& item : *found) {
    if (!item.is_string()) wrong(key, "a list of strings");
    list.push_back(item.get<std::string>());
  }
  return list;
}
JsonObject JsonObject::object(const std::string& key) const {
  return JsonObject(need(key), file_, pointer_ + "/" + pointer_token(key));
}
std::vector<JsonObject> JsonObject::objects(const std::string& key) const {
  std::vector<JsonObject> list;
  const json* found = find(key);
  if (found == nullptr) return list;
  if (!found->is_array()) wrong(key, "a list of objects");
  for (std::size_t i = 0; i < found->size(); ++i) {
    list.push_back(JsonObject(found->at(i), file_, pointer_ + "/" + pointer_token(key) + "/" + std::to_string(i)));
  }
  return list;
}

std::int64_t JsonObject::integer_or(const std::string& key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}
std::int64_t JsonObject::count_or(const std::string& key, std::int64_t fallback) const {
  return has(key) ? count(key) : fallback;
}
std::int64_t JsonObject::positive_or(const std::string& key, std::int64_t fallback) const {
  return has(key) ? positive(key) : fallback;
}
double JsonObject::number_or(const std::string& key, double fallback) const {
  return has(key) ? number(key) : fallback;
}
bool JsonObject::flag_or(const std::string& key, bool fallback) const { return has(key) ? flag(key) : fallback; }
std::string JsonObject::text_or(const std::string& key, const std::string& fallback) const {
  return has(key) ? text(key) : fallback;
}
std::optional<std::int64_t> JsonObject::maybe_count(const std::string& key) const {
  return has(key) ? std::optional(count(key)) : std::nullopt;
}
std::optional<double> JsonObject::maybe_number(const std::string& key) const {
  return has(key) ? std::optional(number(key)) : std::nullopt;
}

std::vector<std::string> JsonObject::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : value_->items()) {
    if (known_.count(key) == 0) keys.push_back(key);
  }
  return keys;
}

void JsonObject::finish() const {
  const std::vector<std::string> strangers = unread();
  if (strangers.empty()) return;
  const std::string& key = strangers.front();
  const auto near = nearest(key, {known_.begin(), known_.end()});
  fail(key, "unknown key", near.empty() ? "remove it" : "did you mean " + one_of(near) + "?");
}

}  // namespace zplan
