// zplan validate: run what a plan wrote for a few steps, then hold what was measured against the prediction.
#include "cli/validate.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/local_gpus.h"
#include "cli/tolerances.h"
#include "io/json_text.h"
#include "io/record_reader.h"
#include "io/report_json.h"
#include "io/validation_text.h"
#include "spec/error.h"

namespace zplan {
namespace {
namespace fs = std::filesystem;

// What is asked of the prediction where --tolerance says nothing. docs/validation.md#validate
const std::vector<std::string> kTolerances = {"allocated_peak=2%", "reserved_peak=6%"};

struct Options {
  ValidationOptions run;
  std::string engine = "deepspeed";
  std::vector<std::string> tolerances;
  bool json = false, dry_run = false;
};

std::string gpus_text(std::int64_t n) { return std::to_string(n) + (n == 1 ? " GPU" : " GPUs"); }

// The record of a rank, beside rank 0's: measurements.rank3.json.
std::string record_of_rank(const std::string& out, std::int64_t rank) {
  if (rank == 0) return out;
  const fs::path path(out);
  return (path.parent_path() / (path.stem().string() + ".rank" + std::to_string(rank) + path.extension().string()))
      .string();
}

std::vector<std::string> record_files(const ValidationJob& job, const ValidationOptions& o) {
  std::vector<std::string> files;
  for (std::int64_t rank = 0; rank < ranks_here(job, o); ++rank) files.push_back(record_of_rank(o.out, rank));
  return files;
}

// Records of an earlier run must not pass for this one's.
void set_aside(const std::vector<std::string>& files) {
  std::error_code error;
  for (const auto& file : files) {
    if (fs::exists(file, error)) fs::rename(file, file + ".before", error);
  }
}

ComparisonReport compared(const std::vector<std::string>& paths, const std::vector<Tolerance>& tolerances,
                          const Catalog& catalog, const FileSource& files, std::vector<Record>& records) {
  ComparisonReport r;
  r.version = ZPLAN_VERSION;
  std::string failed;
  for (const auto& path : paths) {
    if (!files.exists(path)) continue;                             // the rank did not come so far
    if (const auto why = unmeasured(path, files); !why.empty()) {  // stopped because another rank ran out of memory
      if (failed.empty()) failed = why;
      continue;
    }
    for (const auto& text : record_texts(files, path)) records.push_back(read_record(text, catalog, files));
  }
  if (records.empty()) throw InputError("zplan validate", "nothing to compare: " + failed, "see its messages above");
  for (auto& record : records) {
    if (records.size() > 1) record.id += ".rank" + std::to_string(record.run.rank);
    r.runs.push_back(compare(record, TimeCoefficients{}));
  }
  r.summary = summarize(r.runs);
  r.exceeded = exceeded(r.summary, tolerances);
  return r;
}

}  // namespace

LocalGpus local_gpus(const Catalog& catalog) {
  try {
    const Cluster cluster = local_cluster(catalog);
    return {cluster.node.gpus, cluster.node.gpu.name, ""};
  } catch (const InputError& e) {
    return {0, "", e.problem()};
  }
}

int run_validation(const ValidationOptions& o, const ValidationReportOptions& report, const LocalGpus& here,
                   const Catalog& catalog, const std::string& data, Console& console) {
  const DiskFiles files;
  const std::vector<Tolerance> tolerances = tolerances_of(report.tolerances.empty() ? kTolerances : report.tolerances);
  const ValidationJob job = validation_job(o, catalog, files);
  const auto words = validation_command(job, o, data);
  const std::string line = command_line(words);
  if (report.dry_run) {
    console.out << line << "\n";
    return 0;
  }
  const std::string then = "run it there, then `zplan compare " + o.out + "`";
  if (here.count == 0) {
    throw InputError("zplan validate",
                     "no GPU to measure on: " + here.why_none + "; it would have run " + job.what + ":\n  " + line,
                     then);
  }
  if (!o.stand_in && (job.nodes > 1 || job.gpus_per_node() > here.count)) {
    console.out << line << "\n";
    const std::string wants =
        (job.nodes > 1 ? std::to_string(job.nodes) + " nodes of " : "") + gpus_text(job.gpus_per_node());
    throw InputError("zplan validate",
                     job.what + ", needs " + wants + ", this machine has " + std::to_string(here.count) +
                         "; the command printed is for " +
                         (job.nodes > 1 ? "each node, with NODE_RANK and MASTER_ADDR set" : "a machine that has them"),
                     then + ", or play one rank here with --stand-in");
  }
  if (!job.gpu.empty() && job.gpu != here.gpu) {
    console.err << "zplan validate: planned for " << job.gpu << ", measured on " << here.gpu
                << ": compared with a prediction for the latter\n";
  }
  console.err << "zplan validate: " << job.what << (o.stand_in ? ", one of them played on one GPU" : "") << ":\n  "
              << line << std::endl;
  const auto paths = record_files(job, o);
  set_aside(paths);
  const int code = run_child(words);
  if (code != 0 && code != 1) {  // 1: out of memory, which is a measurement
    throw InputError(
        "zplan validate", "nothing to compare: the run ended with exit code " + std::to_string(code),
        "its last message stands above" + (files.exists(o.out) ? ", what it did is in " + o.out : std::string()));
  }
  if (!files.exists(o.out))
    throw InputError("zplan validate", "the run wrote no " + o.out, "its last message stands above");
  std::vector<Record> records;
  const ComparisonReport r = compared(paths, tolerances, catalog, files, records);
  console.out << (report.json ? json_text(comparison_json(r)) + "\n"
                              : validation_text(r, records, tolerances, {console.colour}));
  const bool simulated = r.summary.failed == 0;
  return r.exceeded.empty() && r.summary.outcomes_wrong == 0 && simulated ? 0 : 1;
}

void add_validate(Program& program) {
  const auto options = std::make_shared<Options>();
  auto& o = options->run;
  CLI::App* command =
      program.app.add_subcommand("validate", "Run a plan for a few steps and compare what it used with the prediction");
  command->add_option("--plan", o.plan, "A plan's folder or plan.json, or the output of simulate --json (zplan-out)");
  command->add_option("--like", o.like, "Instead: a run measured before, FILE or FILE.jsonl#ID");
  command->add_option("--engine", options->engine,
                      "deepspeed: DeepSpeed itself; native: zplan-validate, without Python (deepspeed)");
  command->add_flag("--stand-in", o.stand_in, "Play one rank of the world on one GPU; nothing is sent");
  command->add_option("--rank", o.rank, "With --stand-in: which rank (the plan's worst)");
  command->add_option("--steps", o.steps, "Steps measured phase by phase");
  command->add_option("--timed-steps", o.timed_steps, "Whole steps timed after them");
  command->add_option("--capacity", o.capacity, "Limit of torch's allocator, such as 37.5GiB: another card's size");
  command->add_option("--weights", o.weights, "A folder with the model's .safetensors (random weights)");
  command->add_option("--history", o.history, "Also record the allocator's history, FILE.json.gz, for zplan replay");
  command->add_option("--out", o.out, "The record (measurements.json)");
  command->add_option("--python", o.python, "The Python that has DeepSpeed (python3)");
  command->add_option("--program", o.program, "The native engine (zplan-validate)");
  command
      ->add_option("--tolerance", options->tolerances,
                   "QUANTITY=MEAN[,WORST], as compare has it (allocated_peak=2%, reserved_peak=6%)")
      ->take_all();
  command->add_flag("--dry-run", options->dry_run, "Print the command and stop");
  command->add_flag("--json", options->json, "Print zplan.comparison/1");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, data);
      options->run.engine = validation_engine_named(options->engine, "--engine");
      const ValidationReportOptions report{options->tolerances, options->json, options->dry_run};
      const LocalGpus here = options->dry_run ? LocalGpus{} : local_gpus(catalog);
      return run_validation(options->run, report, here, catalog, data, console);
    };
  });
}

}  // namespace zplan
