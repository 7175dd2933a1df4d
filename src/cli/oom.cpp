// zplan oom: which tensor an out-of-memory message is about, why there was no room, and the cheapest way out.
#include <iostream>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "io/catalog.h"
#include "io/json_text.h"
#include "io/oom_message.h"
#include "io/oom_text.h"
#include "units/text.h"

namespace zplan {
namespace {

void note_other_gpu(const OomMessage& message, const Gpu& gpu, std::vector<Note>& notes) {
  if (!message.total) return;
  const double ratio = static_cast<double>(message.total->count) / static_cast<double>(gpu.memory_total.count);
  if (ratio > 0.97 && ratio < 1.03) return;
  notes.push_back({Note::Level::Warning, "other-gpu",
                   "The message is about a GPU of " + text(*message.total) + ", --gpus about one of " +
                       text(gpu.memory_total) + ".",
                   "name the GPUs that the job ran on"});
}

}  // namespace

void add_oom(Program& program) {
  struct Options {
    RunOptions run;
    std::string message;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.app.add_subcommand("oom", "Explain an out-of-memory message: which tensor, why, the cheapest way out");
  add_run_options(*command, options->run);
  add_simulation_options(*command, options->run);
  command->add_option("--message", options->message, "A file with the message: a log, a traceback (standard input)");
  command->add_flag("--json", options->json, "Print zplan.oom/1");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, data);
      RunInputs in = run_inputs(options->run, Purpose::Simulate, catalog, files);
      const bool from_file = !options->message.empty() && options->message != "-";
      if (!from_file && console.progress) console.err << "paste the message, then Ctrl-D" << std::endl;
      const std::string pasted =
          from_file ? files.read(options->message)
                    : std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
      OomMessage message = read_oom_message(pasted, from_file ? options->message : "standard input");
      if (!options->run.rank.empty() && !in.all_ranks) message.rank = in.run.rank;
      OomReport r;
      r.version = ZPLAN_VERSION;
      r.cluster = in.cluster;
      r.assumptions = in.assumptions;
      r.notes = in.notes;
      if (!message.allowed) message.allowed = in.run.capacity_limit;  // releases before 2.9 do not name it
      note_other_gpu(message, in.run.gpu, r.notes);
      r.explanation = explain(message, in.run);
      r.ways = ways_out(in.run, in.cluster, message.limit(), TimeCoefficients{});
      console.out << (options->json ? json_text(oom_json(r)) + "\n" : oom_text(r, {console.colour}));
      return r.explanation.match ? 0 : 1;
    };
  });
}

}  // namespace zplan
