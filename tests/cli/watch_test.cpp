// `zplan watch` end to end: the program, a driver's library made for the test, and who scrapes it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/nvml.h"
#include "tests/catch.h"

using namespace zplan;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A folder with a plan for two H200 (36 GiB of torch's and 2 outside), and a machine.
class Scene {
 public:
  explicit Scene(const std::string& machine)
      : folder_(fs::temp_directory_path() / ("zplan-watch-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    const auto gib = [](double n) { return static_cast<std::int64_t>(n * 1024 * 1024 * 1024); };
    const json plan = {{"schema", "zplan.simulation/1"},
                       {"outcome", "ok"},
                       {"inputs",
                        {{"model", {{"name", "Qwen3-8B"}}},
                         {"machine", {{"gpu", "H200 (SXM)"}, {"gpus_per_node", 2}}},
                         {"ds_config", {{"zero_optimization", {{"stage", 3}}}}}}},
                       {"phases",
                        {{{"phase", "init"}, {"reserved_bytes", gib(18)}, {"reserved_peak_bytes", gib(20)}},
                         {{"step", 0},
                          {"micro_step", 0},
                          {"phase", "step"},
                          {"reserved_bytes", gib(36)},
                          {"reserved_peak_bytes", gib(36)}}}},
                       {"peak", {{"reserved_bytes", gib(36)}}},
                       {"outside_allocator_bytes", {{"cuda_context", gib(1)}, {"nccl", gib(1)}, {"other", 0}}},
                       {"device_capacity_bytes", gib(139.8)},
                       {"time", nullptr}};
    std::ofstream(folder_ / "plan.json") << plan;
    becomes(machine);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() { fs::remove_all(folder_); }
  void becomes(const std::string& machine) const {
    std::ofstream(folder_ / "new") << machine;
    fs::rename(folder_ / "new", folder_ / "machine");
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  fs::path folder_;
};

// zplan as a child process, its output in files.
class Running {
 public:
  Running(const Scene& scene, std::vector<std::string> arguments) : scene_(scene) {
    arguments.insert(arguments.begin(), {ZPLAN_PROGRAM, "watch", "--plan", (scene / "plan.json").string()});
    std::vector<char*> words;
    for (auto& a : arguments) words.push_back(a.data());
    words.push_back(nullptr);
    const std::string out = (scene / "out").string(), err = (scene / "err").string(),
                      machine = (scene / "machine").string();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setenv("ZPLAN_NVML", ZPLAN_FAKE_NVML_LIBRARY, 1);
    ::setenv("ZPLAN_FAKE_NVML", machine.c_str(), 1);
    ::setenv("ZPLAN_DATA", ZPLAN_SOURCE_DIR, 1);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  // The exit code; -1 where a signal ended it.
  int end() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string out() const { return content(scene_ / "out"); }
  std::string err() const { return content(scene_ / "err"); }
  // Waits until the text is there; false after half a minute.
  bool says(const std::string& file, const std::string& text) const {
    for (int i = 0; i < 300; ++i) {
      if (content(scene_ / file).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }

 private:
  const Scene& scene_;
  pid_t pid_ = -1;
};

std::string scrape(const std::string& err) {
  const auto at = err.find("http://127.0.0.1:");
  REQUIRE(at != std::string::npos);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(err.substr(at + 17))));
  ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  std::string out;
  char part[4096];
  for (ssize_t n = 0; (n = ::recv(socket, part, sizeof part, 0)) > 0;) out.append(part, static_cast<std::size_t>(n));
  ::close(socket);
  return out;
}

const std::string two = "gpu NVIDIA_H200 143155 616 39000\ngpu NVIDIA_H200 143155 616 38912\n";
const std::string as_predicted = two + "process 0 11 38912\nprocess 1 12 38912\n";

}  // namespace

TEST_CASE("watch samples, is scraped, sees memory leave the prediction and stops on SIGINT", "[cli]") {
  const Scene scene(as_predicted);
  Running watch(scene, {"--interval", "100ms", "--listen", "127.0.0.1:0"});
  REQUIRE(watch.says("out", "GPU 0 38.0 GiB (100 % of predicted), GPU 1 38.0 GiB (100 % of predicted)"));
  CHECK(watch.out().rfind(
            "Qwen3-8B: 38.0 GiB a GPU predicted (36.0 for torch's allocator + 2.0 outside it) of 139.8 GiB\n", 0) ==
        0);
  CHECK(watch.out().find('\x1b') == std::string::npos);
  const std::string metrics = scrape(watch.err());
  CHECK(metrics.rfind("HTTP/1.1 200 OK\r\n", 0) == 0);
  CHECK(metrics.find("zplan_gpu_memory_used_bytes{gpu=\"1\",uuid=\"GPU-1\"} 40802189312\n") != std::string::npos);
  CHECK(metrics.find("zplan_gpu_memory_other_bytes{gpu=\"0\",uuid=\"GPU-0\"} 92274688\n") != std::string::npos);
  CHECK(metrics.find("zplan_warnings_total{code=\"above-prediction\"} 0\n") != std::string::npos);
  scene.becomes(two + "process 0 11 45056\nprocess 1 12 38912\n");
  REQUIRE(watch.says("out", "warning: GPU 0 uses 44.0 GiB, 6.0 GiB more than the 38.0 GiB predicted. Fix: "));
  watch.signal(SIGINT);
  CHECK(watch.end() == 1);  // it left the prediction
}

TEST_CASE("watch ends after --duration, and a line of JSON is a sample", "[cli]") {
  const Scene scene(as_predicted);
  Running watch(scene, {"--interval", "100ms", "--duration", "350ms", "--listen", "none", "--json"});
  CHECK(watch.end() == 0);
  CHECK(watch.err().empty());
  std::istringstream lines(watch.out());
  int samples = 0;
  for (std::string line; std::getline(lines, line); ++samples) {
    const json j = json::parse(line);
    CHECK(j["gpus"].size() == 2);
    CHECK(j["gpus"][1]["used_bytes"] == 40802189312);
    CHECK(j["warnings"].empty());
  }
  CHECK(samples >= 1);
  CHECK(samples <= 4);
}

TEST_CASE("watch follows the processes of --pid and ends with them", "[cli]") {
  const pid_t job = ::fork();
  if (job == 0) {
    ::pause();
    ::_exit(0);
  }
  const Scene scene(two + "process 0 " + std::to_string(job) + " 38000\nprocess 1 1 38000\n");
  Running watch(scene, {"--pid", std::to_string(job), "--interval", "100ms", "--listen", "none"});
  CHECK(watch.says("out", "GPU 0 37.1 GiB"));
  CHECK(watch.out().find("GPU 1") == std::string::npos);
  ::kill(job, SIGKILL);  // Catch handles the others
  ::waitpid(job, nullptr, 0);
  CHECK(watch.end() == 0);
  CHECK(watch.err() == "the job has ended\n");
}

TEST_CASE("input errors of watch end with 2 and print nothing", "[cli]") {
  const auto [arguments, error] = GENERATE(table<std::vector<std::string>, const char*>({
      {{"--interval", "1"}, "zplan: error: --interval: '1' is no duration\n"},
      {{"--interval", "10ms"}, "zplan: error: --interval: '10ms' is too short\n"},
      {{"--listen", "here"}, "zplan: error: --listen here: is no address with a port\n"},
      {{"--pid", "4194305"}, "zplan: error: --pid: no process 4194305 is running\n"},  // above the kernel's highest
      {{"--pid", "1", "--all"}, "zplan: error: zplan watch: "},
  }));
  const Scene scene(as_predicted);
  Running watch(scene, arguments);
  CHECK(watch.end() == 2);
  CHECK(watch.err().rfind(error, 0) == 0);
  CHECK(watch.out().empty());
}

TEST_CASE("without GPUs watch says where it belongs", "[cli]") {
  const Scene scene("");
  Running watch(scene, {});
  CHECK(watch.end() == 2);
  CHECK(
      watch.err() ==
      "zplan: error: zplan watch: this machine has no NVIDIA GPU\n  fix: watch on the machine where the job runs\n");
}

TEST_CASE("memory and processes are read from old and new drivers", "[cli]") {
  const auto [driver, capacity, used] = GENERATE(table<const char*, Bytes, Bytes>({
      {"driver 510\n", MiB(143155), MiB(39000)},  // without the 616 MiB that the driver keeps
      {"driver 470\n", MiB(143155 + 616), MiB(39000 + 616)},
  }));
  std::string many;  // more than fit at the first call
  for (int i = 0; i < 100; ++i) many += "process 0 " + std::to_string(100 + i) + (i == 99 ? " -1\n" : " 10\n");
  const Scene scene(driver + two + many);
  ::setenv("ZPLAN_NVML", ZPLAN_FAKE_NVML_LIBRARY, 1);
  ::setenv("ZPLAN_FAKE_NVML", (scene / "machine").c_str(), 1);
  {
    const Nvml nvml("here", "do");
    REQUIRE(nvml.count() == 2);
    const auto device = nvml.device(0);
    CHECK(nvml.name(device) == "NVIDIA H200");
    CHECK(nvml.uuid(nvml.device(1)) == "GPU-1");
    CHECK(nvml.memory(device)->capacity == capacity);
    CHECK(nvml.memory(device)->used == used);
    const auto processes = nvml.compute_processes(device);
    REQUIRE(processes.size() == 100);
    CHECK(processes[0].pid == 100);
    CHECK(processes[0].used == MiB(10));
    CHECK(!processes[99].used);
  }
  ::unsetenv("ZPLAN_NVML");
  ::unsetenv("ZPLAN_FAKE_NVML");
}
