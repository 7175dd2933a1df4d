// The subcommands, one file each. add_X declares X's options; when the command line names X, `action` becomes what
// runs it and returns the exit code. The options live as long as `app` does.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/console.h"

namespace zplan {

using CommandAction = std::function<int(Console&)>;

struct Program {
  CLI::App& app;
  const std::string& data;  // the folder with models/ and hardware/
  const std::string& profiles;  // the folder with the user's profiles; empty: none is searched
  CommandAction& action;    // set by the subcommand that was named
};

void add_calibrate(Program& program);
void add_check(Program& program);
void add_compare(Program& program);
void add_gpus(Program& program);
void add_models(Program& program);
void add_oom(Program& program);
void add_plan(Program& program);
void add_replay(Program& program);
void add_simulate(Program& program);
void add_validate(Program& program);
void add_watch(Program& program);

}  // namespace zplan
