#include "cli/plan_options.h"

#include <algorithm>

#include "io/sizes.h"
#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {

const std::vector<std::string>& packages() {
  static const std::vector<std::string> known = {"liger", "bitsandbytes"};
  return known;
}

void check_packages(const std::vector<std::string>& allow) {
  for (const auto& name : allow) {
    if (std::find(packages().begin(), packages().end(), name) == packages().end()) {
      throw InputError("--allow " + name, "is no package that zplan can use", "use " + one_of(packages()));
    }
  }
}

bool allows(const PlanOptions& o, const std::string& package) {
  return std::find(o.allow.begin(), o.allow.end(), package) != o.allow.end();
}

Objective objective_named(const std::string& word) {
  if (word == "time") return Objective::Time;
  if (word == "memory") return Objective::Memory;
  if (word == "headroom") return Objective::Headroom;
  throw InputError("--objective", "'" + word + "' is no objective", "use time, memory or headroom");
}

}  // namespace

void add_plan_options(CLI::App& command, PlanOptions& o) {
  add_run_options(command, o.run);
  command.add_option("--objective", o.objective, "time, memory or headroom (time)")->group("Search");
  command.add_option("--fix", o.fix, "KEY=VALUE: not to be chosen, such as stage=3 or offload=none; repeatable")->take_all()->group("Search");
  command.add_option("--allow", o.allow, "Extra packages: liger (fused loss), bitsandbytes (8-bit Adam); repeatable")->take_all()->group("Search");
  command.add_option("--max-host-ram", o.max_host_ram, "Host memory of a node that may be used, such as 400GiB")->group("Search");
  command.add_option("--out", o.out, "The folder for the files (zplan-out)")->group("Files");
  command.add_flag("--no-files", o.no_files, "Print only")->group("Files");
  command.add_flag("--keep-auto", o.keep_auto, "Leave \"auto\" where the Trainer fills in the same number")->group("Files");
  command.add_option("--launcher", o.launcher, "deepspeed, torchrun, accelerate or slurm (deepspeed)")->group("Files");
  command.add_option("--script", o.script, "Your own Trainer script, in place of train.py")->group("Files");
  command.add_option("--data", o.data, "The JSONL file that train.py reads")->group("Files");
  command.add_flag("--json", o.json, "Print zplan.plan/1");
}

Launcher launcher_named(const std::string& word, const std::string& where) {
  if (word == "deepspeed") return Launcher::DeepSpeed;
  if (word == "torchrun") return Launcher::Torchrun;
  if (word == "accelerate") return Launcher::Accelerate;
  if (word == "slurm") return Launcher::Slurm;
  throw InputError(where, "'" + word + "' is no launcher", "use deepspeed, torchrun, accelerate or slurm");
}

Question question_of(const PlanOptions& o, const RunInputs& in) {
  check_packages(o.allow);
  Question q;
  q.base = in.run;
  q.cluster = in.cluster;
  q.coefficients = in.coefficients;
  q.global_batch = *in.global_batch;
  q.objective = objective_named(o.objective);
  if (!o.max_host_ram.empty()) q.max_host_ram = parse_bytes(o.max_host_ram, "--max-host-ram");
  q.axes = default_axes(q.base, q.cluster, q.global_batch);
  if (in.micro_batch) q.axes.micro_batches = {*in.micro_batch};
  if (!o.run.recompute.empty()) q.axes.recompute = {in.run.workload.recompute.every};
  if (allows(o, "liger") && !o.run.fused_loss) q.axes.fused_loss = {false, true};
  if (allows(o, "bitsandbytes")) q.axes.optimizers.push_back(OptimizerKind::Adam8bit);
  for (const auto& f : o.fix) fix_axis(q.axes, f);
  return q;
}

std::vector<std::string> packages_not_allowed(const PlanOptions& o, const RunInputs& in) {
  std::vector<std::string> out;
  if (!allows(o, "liger") && !in.run.workload.kernels.fused_linear_cross_entropy) out.push_back("liger");
  if (!allows(o, "bitsandbytes") && in.run.workload.finetune == Finetune::Full) out.push_back("bitsandbytes");
  return out;
}

Question with_package(Question q, const std::string& package) {
  if (package == "liger") q.axes.fused_loss = {true};
  if (package == "bitsandbytes") q.axes.optimizers = {OptimizerKind::Adam8bit};
  return q;
}

}  // namespace zplan
