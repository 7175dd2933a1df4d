#include "io/plan_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "spec/error.h"

namespace zplan {

std::vector<std::string> options_of_file(const FileSource& files, const std::string& path) {
  const nlohmann::json root = parse_json(files.read(path), path);
  if (!root.is_object()) throw InputError(path, "is no object", "write {\"model\": ..., \"gpus\": ...}");
  std::vector<std::string> out;
  for (const auto& [key, value] : root.items()) {
    std::string option = "--" + key;
    std::replace(option.begin(), option.end(), '_', '-');
    const auto add = [&](const nlohmann::json& v) {
      out.push_back(option);
      out.push_back(v.is_string() ? v.get<std::string>() : v.dump());
    };
    if (value.is_boolean()) {
      if (value.get<bool>()) out.push_back(option);
    } else if (value.is_array()) {
      for (const auto& v : value) add(v);
    } else if (value.is_string() || value.is_number()) {
      add(value);
    } else {
      throw InputError(place(path, "/" + pointer_token(key)), "is no value of an option", "write a string, a number, true or a list of these");
    }
  }
  return out;
}

}  // namespace zplan
