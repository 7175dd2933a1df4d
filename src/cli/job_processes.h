// The processes of a job, as Linux lists them in /proc: those named and all that they started.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace zplan {

class JobProcesses {
 public:
  // `roots`: the launcher, or the ranks themselves. `proc`: the folder that is /proc.
  explicit JobProcesses(std::vector<std::int64_t> roots, std::string proc = "/proc");

  // Looks again. A process once found stays one of the job's, also when its parent has ended.
  void refresh();
  bool has(std::int64_t pid) const { return found_.count(pid) > 0; }
  bool any_alive() const;

 private:
  std::set<std::int64_t> found_;
  std::string proc_;
};

// RANK in the environment that the process was started with; none if it is not there or may not be read.
std::optional<std::int64_t> rank_of_process(std::int64_t pid, const std::string& proc = "/proc");

}  // namespace zplan
