// zplan plan: find, explain and write the best configuration.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/plan_options.h"
#include "io/catalog.h"
#include "io/json_text.h"
#include "io/plan_differences.h"
#include "io/plan_file.h"
#include "io/record_reader.h"
#include "io/report_json.h"
#include "io/report_text.h"
#include "plan/bounds.h"
#include "plan/memory_check.h"
#include "plan/timed_run.h"
#include "spec/error.h"
#include "units/text.h"

namespace zplan {
namespace {

Progress progress_line(Console& console) {
  if (!console.progress) return {};
  return [&console](const SearchCounts& n) {
    console.err << "\rsearching: " << n.families_tried << " of " << n.families << " families, " << n.simulated << " simulated\x1b[K" << std::flush;
  };
}

// The best with each package that was not allowed, where it beats the plan or is the only one.
void try_packages(const PlanOptions& options, const RunInputs& in, PlanReport& r) {
  for (const auto& package : packages_not_allowed(options, in)) {
    const Question q = with_package(r.question, package);
    auto plans = ranked(q, search(q));
    if (plans.empty()) continue;
    if (!r.plans.empty() && plans.front().candidate.time.total().count > 0.97 * r.plans.front().candidate.time.total().count) continue;
    r.with_kernels.push_back(plans.front());
    r.kernel_names.push_back(package);
  }
}

// The rank with the least to hold beside the one with the most: how far ranks of a running job may differ.
void add_extreme_ranks(SimulationReport& s) {
  Run run = representative(s.run);
  const auto all = shards(run.model, run.workload, run.world_size);
  const auto bound = [&](const Shard& shard) { return memory_bound(shard, run.model, run.workload, run.ds, run.versions.switches).peak(); };
  const auto less = [&](const Shard& a, const Shard& b) { return bound(a) < bound(b); };
  run.rank = std::min_element(all.begin(), all.end(), less)->rank;
  const auto least = run.rank == s.run.rank ? s.simulation : simulate(run, Detail::Full);
  const Simulation& most = s.simulation;
  for (const Simulation* one : {&most, &least}) {
    s.ranks.push_back({one->rank, one->peak.allocated, one->peak.reserved, one->smallest_capacity, one->oom.has_value()});
  }
}

SimulationReport in_full(const PlanReport& r, const Plan& plan) {
  SimulationReport s;
  s.version = r.version;
  s.run = applied(plan.candidate.strategy, r.question.base);
  s.run.rank = r.result.shard.rank;
  s.cluster = r.question.cluster;
  s.simulation = simulate_plan(r.question, r.result, plan.candidate.strategy);
  s.time = plan.candidate.time;
  s.host = plan.candidate.host;
  s.nvme = plan.candidate.nvme * r.question.cluster.node.gpus;
  if (s.run.ds.zero.stage == 1 || s.run.ds.zero.stage == 2) add_extreme_ranks(s);
  return s;
}

// Measured runs of the same model, world, micro-batch and kind of strategy.
std::vector<MeasuredLike> measured_like(const PlanReport& r, const Catalog& catalog, const FileSource& files, const std::string& data) {
  std::vector<MeasuredLike> out;
  const auto& s = r.plans.front().candidate.strategy;
  std::vector<RecordText> texts;
  for (const char* name : {"runs", "plans", "grid"}) {
    const std::string path = data + "/tests/truth/" + name + ".jsonl";
    if (!files.exists(path)) continue;
    auto more = record_texts(files, path);
    std::move(more.begin(), more.end(), std::back_inserter(texts));
  }
  for (const auto& text : texts) {
    // A cheap look before the record is read in full.
    if (text.text.find("\"world_size\": " + std::to_string(r.question.base.world_size) + ",") == std::string::npos) continue;
    try {
      const Record record = read_record(text, catalog, files);
      const Run& m = record.run;
      const bool once = m.rank == 0 || record.ranks == Record::Ranks::Fake;  // of real ranks the first speaks for all
      const bool same = once && m.model.name == r.question.base.model.name && m.ds.zero.stage == s.ds.zero.stage &&
                        offload_of(m.ds.zero) == offload_of(s.ds.zero) && m.workload.seq_len == s.workload.seq_len &&
                        m.ds.train_micro_batch_size_per_gpu == s.ds.train_micro_batch_size_per_gpu &&
                        m.workload.recompute.every == s.workload.recompute.every && m.workload.finetune == s.workload.finetune &&
                        m.workload.kernels == s.workload.kernels && strategy_of(m).expandable_segments == s.expandable_segments;
      if (!same) continue;
      MeasuredLike like;
      like.id = record.id;
      like.world_size = m.world_size;
      like.ran = record.outcome == Record::Outcome::Ok;
      like.capacity_limit = m.capacity_limit;
      for (const auto& p : record.phases) {
        if (p.step < 0) continue;
        like.allocated_peak = std::max(like.allocated_peak, p.allocated_peak);
        like.reserved_peak = std::max(like.reserved_peak, p.reserved_peak);
      }
      if (m.ds.gradient_accumulation_steps == 1) like.step = whole_step(record);
      out.push_back(like);
    } catch (const InputError&) {
      continue;  // another version's record says nothing here
    }
  }
  return out;
}

std::vector<OutputFile> files_of(const PlanOptions& options, const PlanReport& r) {
  EmitOptions emit;
  emit.launcher = launcher_named(options.launcher, "--launcher");
  emit.keep_auto = options.keep_auto;
  emit.script = options.script;
  emit.data = options.data;
  emit.made_by = std::string("zplan ") + ZPLAN_VERSION;
  emit.training = default_training(r.question.base.workload.finetune);
  return emit_files(r.best->run, r.question.cluster, emit);
}

int run_plan(const PlanOptions& options, const std::string& data, Console& console) {
  const DiskFiles files;
  const Catalog catalog = load_catalog(files, data);
  const RunInputs in = run_inputs(options.run, Purpose::Plan, catalog, files);
  launcher_named(options.launcher, "--launcher");
  PlanReport r;
  r.version = ZPLAN_VERSION;
  r.assumptions = in.assumptions;
  r.notes = in.notes;
  r.question = question_of(options, in);
  const auto began = std::chrono::steady_clock::now();
  r.result = search(r.question, progress_line(console));
  r.plans = ranked(r.question, r.result);
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (!r.plans.empty()) r.best = in_full(r, r.plans.front());
  if (r.best) {
    r.notes.insert(r.notes.end(), r.best->simulation.notes.begin(), r.best->simulation.notes.end());
    if (const auto note = host_note(r.plans.front().candidate.time, in.coefficients)) r.notes.push_back(*note);
  }
  const Plan* best = r.plans.empty() ? nullptr : &r.plans.front();
  r.rejected = why_not(r.question, r.result, best);
  try_packages(options, in, r);
  if (best) {
    r.reasons = setting_reasons(r.question, r.result, *best);
    r.measured = measured_like(r, catalog, files, data);
  } else {
    r.changes = what_would_fit(r.question, r.result);
  }
  if (console.progress) console.err << "\r\x1b[K" << std::flush;
  if (best && !options.no_files) {
    auto written = files_of(options, r);
    for (const auto& f : written) r.files.push_back(f.name);
    r.files.push_back("plan.json");
    r.out = options.out;
    written.push_back({"plan.json", json_text(plan_json(r)) + "\n", false});
    write_files(options.out, written);
  }
  console.out << (options.json ? json_text(plan_json(r)) + "\n" : plan_text(r, {console.colour}));
  return best ? 0 : 1;
}

// The options of a file, as if they had been typed.
PlanOptions options_from(const std::string& path, const PlanOptions& typed) {
  PlanOptions o;
  o.run.profiles = typed.run.profiles;
  CLI::App app("", path);
  add_plan_options(app, o);
  auto words = options_of_file(DiskFiles(), path);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw InputError(path, error.what(), "`zplan plan --help` lists the options; the file's keys are their names");
  }
  o.json = o.json || typed.json;
  o.no_files = o.no_files || typed.no_files;
  if (typed.out != PlanOptions{}.out) o.out = typed.out;
  if (!typed.run.profile.empty()) o.run.profile = typed.run.profile;
  return o;
}

int compare_plans(const std::vector<std::string>& paths, bool json, Console& console) {
  const PlanDifferences d = plan_differences(DiskFiles(), paths.at(0), paths.at(1));
  console.out << (json ? json_text(plan_differences_json(d)) + "\n" : plan_differences_text(d));
  return 0;
}

}  // namespace

void add_plan(Program& program) {
  struct Options {
    PlanOptions plan;
    std::string file;
    std::vector<std::string> compared;
  };
  const auto options = std::make_shared<Options>();
  options->plan.run.profiles = program.profiles;
  CLI::App* command = program.app.add_subcommand("plan", "Find, explain and write the best configuration (the default command)");
  command->add_option("FILE", options->file, "The options from a JSON file; --json, --out and --no-files still count");
  add_plan_options(*command, options->plan);
  command->add_option("--compare", options->compared, "Plan nothing; show how two plan.json differ")->expected(2)->type_name("A.json B.json");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      if (!options->compared.empty()) return compare_plans(options->compared, options->plan.json, console);
      return run_plan(options->file.empty() ? options->plan : options_from(options->file, options->plan), data, console);
    };
  });
}

}  // namespace zplan
