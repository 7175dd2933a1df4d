// The zplan command.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "cli/program.h"

namespace {

bool moves_cursor() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

bool shows_colours() {
  const char* off = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  return moves_cursor() && (off == nullptr || *off == '\0');
}

// models/ and hardware/: where ZPLAN_DATA says, else beside an installed program, else where it was built from.
std::string data_folder() {
  if (const char* said = std::getenv("ZPLAN_DATA"); said != nullptr && *said != '\0') return said;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto installed = self.parent_path().parent_path() / "share" / "zplan";
    if (std::filesystem::is_directory(installed / "models", error)) return installed.string();
  }
  return ZPLAN_DATA_DIR;
}

// The user's own profiles, as the XDG Base Directory Specification has it.
std::string profiles_folder() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config != '\0') return std::string(config) + "/zplan/profiles";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.config/zplan/profiles" : "";
}

}  // namespace

int main(int argc, char** argv) {
  zplan::Console console{std::cout, std::cerr, shows_colours(), ::isatty(STDERR_FILENO) != 0, moves_cursor()};
  return zplan::run_program({argv + 1, argv + argc}, data_folder(), console, profiles_folder());
}
