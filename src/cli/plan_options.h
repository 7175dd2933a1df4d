// The options of `zplan plan` beyond those that every simulation shares.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "io/emit.h"
#include "plan/search.h"

namespace zplan {

struct PlanOptions {
  RunOptions run;
  std::vector<std::string> allow, fix;
  std::string objective = "time", max_host_ram, out = "zplan-out", launcher = "deepspeed", script, data;
  bool json = false, no_files = false, keep_auto = false;
};
void add_plan_options(CLI::App& command, PlanOptions& options);

Launcher launcher_named(const std::string& word, const std::string& where);

// What is searched for, and with which extra packages.
Question question_of(const PlanOptions& options, const RunInputs& in);
// Extra packages that were not allowed and could be used: what they would buy is shown.
std::vector<std::string> packages_not_allowed(const PlanOptions& options, const RunInputs& in);
Question with_package(Question question, const std::string& package);

}  // namespace zplan
