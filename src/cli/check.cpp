// zplan check F: what is wrong with a ds_config.json for this model and these GPUs.
#include <memory>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "io/lint.h"

namespace zplan {

void add_check(Program& program) {
  struct Options {
    RunOptions run;
    std::string file, framework = "trainer";
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("check", "Lint a ds_config.json for a model and GPUs");
  command->add_option("FILE", options->file, "The ds_config.json")->required();
  add_run_options(*command, options->run);
  command->add_option("--framework", options->framework,
                      "What runs it: trainer (Hugging Face, which fills \"auto\") or deepspeed")
      ->check(CLI::IsMember({"trainer", "deepspeed"}))->group("What and where");
  command->add_flag("--json", options->json, "Print JSON (zplan.check/1)");
  command->callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, data);
      const RunInputs inputs = run_inputs(options->run, Purpose::Check, catalog, files);
      LintSubject subject;
      subject.run = inputs.run;
      subject.cluster = inputs.cluster;
      subject.trainer = options->framework == "trainer";
      subject.micro_batch = options->run.micro_batch;
      subject.grad_accum = options->run.grad_accum;
      subject.precision_said = !options->run.precision.empty();
      const LintResult result = lint(files.read(options->file), options->file, subject);
      console.out << (options->json ? lint_json(result, options->file, subject)
                                    : lint_text(result, options->file, subject));
      return result.count(Finding::Level::Error) > 0 ? 1 : 0;
    };
  });
}

}  // namespace zplan
