#include "cli/program.h"

#include <algorithm>
#include <exception>

#include "cli/commands.h"
#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {

constexpr const char* default_command = "plan";

void report(const InputError& error, Console& console) { console.err << "zplan: error: " << error.what() << "\n"; }

std::vector<std::string> commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// `zplan --model M` means `zplan plan --model M`. A first word that is no command is a misspelt one.
std::vector<std::string> with_command(std::vector<std::string> arguments, const CLI::App& app) {
  if (arguments.empty()) return arguments;
  const std::string& first = arguments.front();
  if (first == "-h" || first == "--help" || first == "--version") return arguments;
  const std::vector<std::string> known = commands(app);
  if (std::find(known.begin(), known.end(), first) != known.end()) return arguments;
  if (first.rfind('-', 0) == 0 && std::find(known.begin(), known.end(), default_command) != known.end()) {
    arguments.insert(arguments.begin(), default_command);
    return arguments;
  }
  const auto near = nearest(first, known);
  throw InputError("zplan " + first, "there is no such command",
                   near.empty() ? "`zplan --help` lists them" : "did you mean " + one_of(near) + "?");
}

// A command line CLI11 refused, in zplan's own form. Help and version are no errors.
int refused(const CLI::App& app, const CLI::ParseError& error, Console& console) {
  if (error.get_exit_code() == 0) return app.exit(error, console.out, console.err);
  std::string command = "zplan";
  for (const CLI::App* named : app.get_subcommands()) command += " " + named->get_name();
  report(InputError(command, error.what(), "`" + command + " --help` lists the options"), console);
  return 2;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const std::string& data, Console& console,
                const std::string& profiles) {
  CLI::App app("Plans DeepSpeed fine-tuning: which configuration fits these GPUs and runs fastest, and why.", "zplan");
  app.set_version_flag("--version", "zplan " ZPLAN_VERSION);
  app.require_subcommand(0, 1);
  CommandAction action;
  Program program{app, data, profiles, action};
  add_plan(program);
  add_simulate(program);
  add_check(program);
  add_compare(program);
  add_calibrate(program);
  add_models(program);
  add_gpus(program);
  add_replay(program);
  add_validate(program);
  add_oom(program);
  add_watch(program);
  try {
    std::vector<std::string> words = with_command(arguments, app);
    std::reverse(words.begin(), words.end());  // CLI11 takes a vector from its end
    app.parse(words);
    if (!action) {
      console.out << app.help();
      return 0;
    }
    return action(console);
  } catch (const CLI::ParseError& error) {
    return refused(app, error, console);
  } catch (const InputError& error) {
    report(error, console);
    return 2;
  } catch (const std::exception& error) {
    report(InputError("zplan", error.what(), "this is a fault of zplan, not of what it was given: please report the command line"), console);
    return 3;
  }
}

}  // namespace zplan
