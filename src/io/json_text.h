// JSON as a person writes it: two spaces a level, and what fits on a line in one line if it holds
// no objects.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace zplan {

std::string json_text(const nlohmann::ordered_json& value);

}  // namespace zplan
