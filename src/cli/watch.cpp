// zplan watch: the memory of a running job against its prediction, GPU by GPU, and a Prometheus endpoint.
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/job_processes.h"
#include "cli/metrics_server.h"
#include "cli/nvml.h"
#include "cli/stop_signals.h"
#include "io/catalog.h"
#include "io/durations.h"
#include "io/prediction_reader.h"
#include "io/prometheus.h"
#include "io/watch_text.h"
#include "spec/error.h"

namespace zplan {
namespace {

constexpr const char* kUsualAddress = "127.0.0.1:9400";
constexpr double kQuietest = 60;  // seconds: a plain line at least so often

struct Options {
  std::string plan, interval = "1s", duration, listen;
  std::vector<std::int64_t> pids;
  bool all = false, json = false;
};

// The name that predictions use, where the GPU is known.
std::string known_name(const Catalog& catalog, const std::string& name) {
  try {
    return find_gpu(catalog, name, "").gpu.name;
  } catch (const InputError&) {
    return name;
  }
}

// Without `job` every process with a CUDA context is the job's.
std::vector<GpuSample> sample(const Nvml& nvml, const Catalog& catalog, const JobProcesses* job) {
  std::vector<GpuSample> out;
  const unsigned count = nvml.count();
  for (unsigned i = 0; i < count; ++i) {
    try {
      const auto device = nvml.device(i);
      const auto memory = nvml.memory(device);
      if (!memory) continue;
      GpuSample s{static_cast<std::int64_t>(i),
                  nvml.uuid(device),
                  known_name(catalog, nvml.name(device)),
                  memory->capacity,
                  memory->used,
                  {}};
      for (const auto& p : nvml.compute_processes(device)) {
        if (!job || job->has(p.pid)) s.job.push_back({p.pid, p.used, rank_of_process(p.pid)});
      }
      out.push_back(std::move(s));
    } catch (const InputError&) {
      continue;  // a GPU that does not answer is missing from the sample, and the watch says so
    }
  }
  return out;
}

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return text;
}

class Printer {
 public:
  Printer(Console& console, bool json) : console_(console), json_(json) {}

  void print(const Watch& watch) {
    const double at = watch.state().at.count;
    if (json_) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      console_.out << watch_json_line(watch, std::chrono::duration<double>(now).count());
    } else if (console_.terminal) {
      draw(watch_table(watch, clock_text(), {console_.colour}));
    } else {
      if (last_.empty()) console_.out << watch_heading(watch.prediction()) << "\n";
      for (const auto& n : watch.state().fresh) console_.out << clock_text() << "  " << warning_line(n) << "\n";
      if (const std::string line = watch_line(watch); line != last_ || at - printed_ >= kQuietest) {
        console_.out << clock_text() << "  " << line << "\n";
        last_ = line;
        printed_ = at;
      }
    }
    console_.out << std::flush;
  }

 private:
  // From the top left corner over the last frame, line by line: nothing flickers.
  void draw(const std::string& frame) {
    std::string out = last_.empty() ? "\x1b[2J\x1b[H" : "\x1b[H";
    for (const char c : frame) out += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    console_.out << out << "\x1b[J";
    last_ = frame;
  }

  Console& console_;
  bool json_;
  std::string last_;
  double printed_ = 0;
};

// Null: not asked for, or the usual port is taken and nobody asked for it.
std::unique_ptr<MetricsServer> server_of(const Options& o, Console& console) {
  if (o.listen == "none") return nullptr;
  try {
    auto server = std::make_unique<MetricsServer>(o.listen.empty() ? kUsualAddress : o.listen);
    console.err << "metrics: " << server->url() << (server->only_this_machine() ? "" : " (open to other machines)")
                << std::endl;
    return server;
  } catch (const InputError& e) {
    if (!o.listen.empty()) throw;
    console.err << "no metrics: " << e.problem() << " (" << kUsualAddress << "); --listen names another port"
                << std::endl;
    return nullptr;
  }
}

int run_watch(const Options& o, const std::string& data, Console& console) {
  const DiskFiles files;
  const Catalog catalog = load_catalog(files, data);
  WatchOptions options;
  options.whole_device = o.all;
  options.interval = parse_seconds(o.interval, "--interval");
  if (options.interval.count < 0.1)
    throw InputError("--interval", "'" + o.interval + "' is too short", "write 100ms or more");
  const double duration = o.duration.empty() ? HUGE_VAL : parse_seconds(o.duration, "--duration").count;
  Watch watch(read_prediction(files, o.plan), options);
  std::optional<JobProcesses> job;
  if (!o.pids.empty()) {
    job.emplace(o.pids);
    if (!job->any_alive())
      throw InputError("--pid", "no process " + std::to_string(o.pids.front()) + " is running",
                       "give the launcher's or the ranks' process ids (`nvidia-smi`)");
  }
  const Nvml nvml("zplan watch", "watch on the machine where the job runs");
  if (nvml.count() == 0)
    throw InputError("zplan watch", "this machine has no NVIDIA GPU", "watch on the machine where the job runs");

  StopSignals signals;
  const auto server = server_of(o, console);
  Printer printer(console, o.json);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  for (double next = 0;;) {
    if (job) job->refresh();
    watch.observe(Seconds{elapsed()}, sample(nvml, catalog, job ? &*job : nullptr));
    if (server) server->publish(prometheus_text(watch, ZPLAN_VERSION));
    printer.print(watch);
    if (job && !job->any_alive()) {
      console.err << "the job has ended" << std::endl;
      break;
    }
    next =
        std::max(next + options.interval.count, elapsed());  // a slow sample delays the next, and none is made up for
    if (next > duration || signals.wait(Seconds{next - elapsed()})) break;
  }
  return watch.left_prediction() ? 1 : 0;
}

}  // namespace

void add_watch(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("watch", "Live memory of a running job against its prediction");
  command->add_option("--plan", options->plan, "plan.json of `zplan plan`, or what `zplan simulate --json` printed")
      ->required();
  auto* pid = command
                  ->add_option("--pid", options->pids,
                               "The job: its launcher or ranks, and all they started (every process on the GPUs)")
                  ->delimiter(',')
                  ->check(CLI::PositiveNumber);
  command->add_flag("--all", options->all, "Count whatever is used on the GPUs, no matter whose")->excludes(pid);
  command->add_option("--interval", options->interval, "Time between samples (1s)");
  command->add_option("--duration", options->duration,
                      "Stop after this time, such as 10m (until the job ends, or Ctrl-C)");
  command->add_option("--listen", options->listen, "Where Prometheus finds /metrics, or none (127.0.0.1:9400)");
  command->add_flag("--json", options->json, "Print a line of JSON a sample (zplan.watch/1)");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) { return run_watch(*options, data, console); };
  });
}

}  // namespace zplan
