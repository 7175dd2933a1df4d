#include "cli/job_processes.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace zplan {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

struct Stat {
  char state = 'Z';
  std::int64_t parent = 0;
};

// proc(5): "pid (name) state parent ..."; the name may hold anything, also ")".
std::optional<Stat> stat_of(const std::string& proc, std::int64_t pid) {
  const std::string text = content(proc + "/" + std::to_string(pid) + "/stat");
  const auto name_end = text.rfind(") ");
  if (name_end == std::string::npos || text.size() < name_end + 5) return std::nullopt;
  const auto from = name_end + 4;
  const auto parent = number(text.substr(from, text.find(' ', from) - from));
  if (!parent) return std::nullopt;
  return Stat{text[name_end + 2], *parent};
}

}  // namespace

JobProcesses::JobProcesses(std::vector<std::int64_t> roots, std::string proc)
    : found_(roots.begin(), roots.end()), proc_(std::move(proc)) {
  refresh();
}

void JobProcesses::refresh() {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;  // process, parent
  std::error_code error;
  for (std::filesystem::directory_iterator at(proc_, error), end; !error && at != end; at.increment(error)) {
    const auto pid = number(at->path().filename().string());
    if (!pid) continue;
    if (const auto stat = stat_of(proc_, *pid)) all.emplace_back(*pid, stat->parent);
  }
  for (bool more = true; more;) {  // a child may be listed before its parent
    more = false;
    for (const auto& [pid, parent] : all) more = (found_.count(parent) > 0 && found_.insert(pid).second) || more;
  }
}

bool JobProcesses::any_alive() const {
  return std::any_of(found_.begin(), found_.end(), [&](std::int64_t pid) {
    const auto stat = stat_of(proc_, pid);
    return stat && stat->state != 'Z' && stat->state != 'X';
  });
}

std::optional<std::int64_t> rank_of_process(std::int64_t pid, const std::string& proc) {
  const std::string environment = content(proc + "/" + std::to_string(pid) + "/environ");
  for (std::size_t at = 0; at < environment.size();) {
    const auto end = std::min(environment.find('\0', at), environment.size());
    if (environment.compare(at, 5, "RANK=") == 0) return number(environment.substr(at + 5, end - at - 5));
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace zplan
