// A command run inside the test, and a folder that is there only for one test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace zplan::testing {

struct Outcome {
  int code;
  std::string out, err;
};

inline Outcome zplan_run(const std::vector<std::string>& arguments, const std::string& profiles = "",
                         const std::string& data = ZPLAN_SOURCE_DIR) {
  std::ostringstream out, err;
  Console console{out, err};
  const int code = run_program(arguments, data, console, profiles);
  return {code, out.str(), err.str()};
}

// Not made, only its place is kept free.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("zplan-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return path_.string(); }
  bool has(const std::string& file) const { return std::filesystem::exists(path_ / file); }
  std::string read(const std::string& file) const {
    std::ifstream in(path_ / file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::string operator/(const std::string& file) const { return (path_ / file).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace zplan::testing
