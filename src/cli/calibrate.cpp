// zplan calibrate: fit what physics leaves open to measured runs, and write the profile that later plans load.
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "io/calibration_report.h"
#include "io/catalog.h"
#include "io/json_text.h"
#include "io/profile_reader.h"
#include "io/rates_reader.h"
#include "io/record_reader.h"
#include "plan/calibrate_process.h"
#include "plan/comparison.h"
#include "plan/measured_rates.h"
#include "plan/parallel.h"
#include "spec/error.h"

namespace zplan {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out = "profile.json";
  bool json = false;
};

struct Inputs {
  std::vector<Record> records;
  std::vector<std::string> where;  // of each
  std::vector<MeasuredRates> rates;
};

Inputs read_inputs(const std::vector<std::string>& paths, const Catalog& catalog, const FileSource& files) {
  Inputs in;
  for (const auto& path : paths) {
    for (const RecordText& text : record_texts(files, path)) {
      if (is_rates(text.text, text.where)) {
        in.rates.push_back(read_rates(text.text, text.where, catalog));
        continue;
      }
      in.records.push_back(read_record(text, catalog, files));
      in.where.push_back(text.where);
    }
  }
  return in;
}

// A profile is of one GPU and one set of versions: those of the first record. Others' seconds would say something
// about other programs.
void check_same(const Inputs& in) {
  const char* apart = "calibrate the records of each GPU and of each version apart";
  if (in.records.empty()) {
    throw InputError("zplan calibrate",
                     "no measured run is named, and rates alone do not say of which DeepSpeed they are",
                     "name a measurement record, too");
  }
  const Record& first = in.records.front();
  const Profile key = profile_of(first.run, {}, {});
  for (std::size_t i = 1; i < in.records.size(); ++i) {
    const Record& r = in.records[i];
    // Memory alone is compared, not fitted: its version may be another.
    if (r.run.gpu.id == key.gpu && r.loop_step_seconds.empty()) continue;
    if (const std::string other = mismatch(key, r.run); !other.empty()) {
      throw InputError(in.where[i], r.id + " is of another kind than " + first.id + ", which " + other, apart);
    }
  }
  for (const MeasuredRates& m : in.rates) {
    if (m.cluster.node.gpu.id == key.gpu) continue;
    throw InputError(m.id, "measured on " + m.cluster.node.gpu.id + ", but " + first.id + " on " + key.gpu, apart);
  }
}

void simulate_all(const std::vector<Record>& records, Console& console, CalibrationReport& r) {
  std::vector<Comparison> comparisons(records.size());
  std::atomic<std::size_t> done{0};
  in_parallel(records.size(), 2, [&](std::size_t i) {
    try {
      comparisons[i] = compare(records[i], TimeCoefficients{});
    } catch (const std::exception& e) {
      comparisons[i].error = e.what();
    }
    if (console.progress)
      console.err << "\rsimulating: " + std::to_string(++done) + " of " + std::to_string(records.size()) + "\x1b[K"
                  << std::flush;
  });
  if (console.progress) console.err << "\r\x1b[K" << std::flush;
  for (const Comparison& c : comparisons) r.compared += c.simulation ? 1 : 0;
  r.residual = largest_residual(records, comparisons);
}

int run_calibrate(const Options& options, const std::string& data, Console& console) {
  const DiskFiles files;
  const Catalog catalog = load_catalog(files, data);
  const Inputs in = read_inputs(options.files, catalog, files);
  check_same(in);
  const std::vector<Record>& records = in.records;

  CalibrationReport r;
  r.version = ZPLAN_VERSION;
  r.gpu = records.front().run.gpu.name;
  const TimedRuns timed = timed_runs(records);
  r.notes = timed.left_out;
  std::vector<MeasuredGroup> groups;
  for (const TimedRun& t : timed.runs) groups.push_back(measured_group(t));
  for (const MeasuredRates& m : in.rates) {
    for (MeasuredGroup& g : measured_groups(m)) groups.push_back(std::move(g));
  }
  r.time = calibrate_time(groups);
  r.process = calibrate_process(records);
  r.profile = profile_of(timed.runs.empty() ? records.front().run : timed.runs.front().run, r.time.table, r.process);
  simulate_all(records, console, r);
  const bool found = !r.profile.coefficients.empty();
  if (found) {
    const std::filesystem::path path(options.out);
    const std::string folder = path.parent_path().empty() ? "." : path.parent_path().string();
    write_files(folder, {{path.filename().string(), json_text(profile_json(r.profile, r.version)) + "\n", false}});
    r.out = options.out;
  }
  console.out << (options.json ? json_text(calibration_json(r)) + "\n" : calibration_text(r, {console.colour}));
  return found ? 0 : 1;
}

}  // namespace

void add_calibrate(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("calibrate", "Fit the time model to measured runs; write a profile");
  command
      ->add_option("FILES", options->files,
                   "Measurement records (a .json each, or many in a .jsonl), and rates of measure_rates.py")
      ->required();
  command->add_option("--out", options->out, "The profile to write (profile.json)");
  command->add_flag("--json", options->json, "Print zplan.calibration/1");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) { return run_calibrate(*options, data, console); };
  });
}

}  // namespace zplan
