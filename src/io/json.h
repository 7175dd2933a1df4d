// Strict reading of JSON: every key is asked for by name and type, and a key nobody asked for is an error.
// Every message names the file and the JSON pointer: "models/x.json:/hidden_size".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace zplan {

enum class Comments { Refused, Skipped };  // Skipped: // and /* */, as hjson lets a ds_config have them

// The value of a whole text. Throws InputError with line and column if it is not JSON or ends too early, and if an
// object has a key twice (most readers would silently take the last).
nlohmann::json parse_json(const std::string& text, const std::string& file, Comments comments = Comments::Refused);

// One object of a file. Reading a key marks it as known; finish() refuses the keys that were never read.
// Integers may be written as integral floats (5e8), as Python's readers accept them. `null` counts as absent.
class JsonObject {
 public:
  // The root of a file, or of a part of one that is called "file:/pointer". Throws InputError if the value is not
  // an object. `value` must outlive this.
  JsonObject(const nlohmann::json& value, const std::string& file);

  bool has(const std::string& key) const;                          // there, and not null
  bool given(const std::string& key) const;                        // there, perhaps null
  std::int64_t integer(const std::string& key) const;              // any sign
  std::int64_t count(const std::string& key) const;                // 0 or more
  std::int64_t positive(const std::string& key) const;             // 1 or more
  double number(const std::string& key) const;                     // finite, 0 or more
  bool flag(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;    // a list of strings; none if absent
  JsonObject object(const std::string& key) const;
  std::vector<JsonObject> objects(const std::string& key) const;   // a list of objects; none if absent
  const nlohmann::json& value(const std::string& key) const;       // whatever it is, but not null
  const nlohmann::json& raw(const std::string& key) const;         // of a key that is there: also null

  std::int64_t integer_or(const std::string& key, std::int64_t fallback) const;
  std::int64_t count_or(const std::string& key, std::int64_t fallback) const;
  std::int64_t positive_or(const std::string& key, std::int64_t fallback) const;
  double number_or(const std::string& key, double fallback) const;
  bool flag_or(const std::string& key, bool fallback) const;
  std::string text_or(const std::string& key, const std::string& fallback) const;
  std::optional<std::int64_t> maybe_count(const std::string& key) const;
  std::optional<double> maybe_number(const std::string& key) const;

  void ignore(const std::string& key) const;         // known, and of no use here
  void finish() const;                               // throws if a key was never read
  std::vector<std::string> unread() const;           // the keys never read
  const std::set<std::string>& known() const { return known_; }  // the keys asked for so far
  std::string where() const;                         // "file" or "file:/pointer"
  std::string where(const std::string& key) const;   // "file:/pointer/key"
  // Throws InputError at the key.
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& fix) const;

 private:
  JsonObject(const nlohmann::json& value, const std::string& file, const std::string& pointer);
  const nlohmann::json* find(const std::string& key) const;  // null pointer: absent or null
  const nlohmann::json& need(const std::string& key) const;
  [[noreturn]] void wrong(const std::string& key, const char* wanted) const;

  const nlohmann::json* value_;
  std::string file_, pointer_;
  mutable std::set<std::string> known_;  // asking is what makes a key known, also on a const object
};

// A JSON pointer's token for a key: ~ and / escaped (RFC 6901).
std::string pointer_token(const std::string& key);
// "file" and "/a/b" -> "file:/a/b"; "file:/a" and "/b" -> "file:/a/b".
std::string place(const std::string& file, const std::string& pointer);

}  // namespace zplan
