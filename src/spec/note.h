// Advice that is not an error: carried in results, printed at the end, and in JSON as "notes".
#pragma once

#include <string>

namespace zplan {

struct Note {
  enum class Level { Info, Warning };
  Level level = Level::Info;
  std::string code;  // stable, e.g. "offload-param-ignored"
  std::string text;  // one sentence
  std::string fix;   // what to do, may be empty
  friend bool operator==(const Note&, const Note&) = default;
};

}  // namespace zplan
