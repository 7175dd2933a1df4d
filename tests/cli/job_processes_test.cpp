#include "cli/job_processes.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.h"

using namespace zplan;
namespace fs = std::filesystem;

namespace {

// A /proc with the processes it is told of.
class Proc {
 public:
  Proc() : path_(fs::temp_directory_path() / ("zplan-proc-" + std::to_string(::getpid()))) {
    fs::create_directories(path_ / "self");
  }
  Proc(const Proc&) = delete;
  Proc& operator=(const Proc&) = delete;
  ~Proc() { fs::remove_all(path_); }
  void start(int pid, int parent, const std::string& name = "python", char state = 'S',
             const std::string& environment = "") {
    const fs::path folder = path_ / std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream(folder / "stat") << pid << " (" << name << ") " << state << " " << parent << " 1 1 0 -1\n";
    std::ofstream(folder / "environ", std::ios::binary) << environment;
  }
  void end(int pid) { fs::remove_all(path_ / std::to_string(pid)); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("a job is the processes named and all that they started, also later and also orphans", "[cli]") {
  Proc proc;
  proc.start(100, 1, "torchrun");
  proc.start(300, 200, "a (strange) name");  // listed before its parent is found
  proc.start(200, 100);
  proc.start(400, 1);
  JobProcesses job({100}, proc.path());
  for (const int pid : {100, 200, 300}) CHECK(job.has(pid));
  CHECK(!job.has(400));
  CHECK(!job.has(1));
  proc.end(100);
  proc.start(200, 1);  // now a child of init
  proc.start(500, 200);
  job.refresh();
  CHECK(job.has(200));
  CHECK(job.has(500));
  CHECK(job.any_alive());
  for (const int pid : {200, 300}) proc.end(pid);
  proc.start(500, 1, "python", 'Z');
  CHECK(!job.any_alive());
}

TEST_CASE("a rank is what its environment says", "[cli]") {
  Proc proc;
  const auto with = [](std::initializer_list<const char*> variables) {
    std::string out;
    for (const char* v : variables) out += std::string(v) + '\0';
    return out;
  };
  proc.start(1, 0, "python", 'S', with({"LOCAL_RANK=1", "RANK=5", "WORLD_SIZE=8"}));
  proc.start(2, 0, "python", 'S', with({"LOCAL_RANK=1"}));
  proc.start(3, 0, "python", 'S', with({"RANK=x"}));
  CHECK(rank_of_process(1, proc.path()) == 5);
  CHECK(!rank_of_process(2, proc.path()));
  CHECK(!rank_of_process(3, proc.path()));
  CHECK(!rank_of_process(4, proc.path()));
}
