// zplan replay trace.json[.gz]: a recorded PyTorch allocator history, replayed and compared line by
// line.
#include <filesystem>
#include <fstream>
#include <memory>

#include "allocator/alloc_conf.h"
#include "cli/commands.h"
#include "io/agreement_report.h"
#include "io/catalog.h"
#include "io/record_reader.h"
#include "io/replay_svg.h"
#include "io/replay_text.h"
#include "io/sizes.h"
#include "io/trace_reader.h"
#include "spec/error.h"
#include "spec/versions.h"

namespace zplan {
namespace {

struct ReplayArguments {
  std::string trace;
  std::optional<std::string> alloc_conf;  // default: what the recording says
  std::string torch;                      // default: what the recording says, else 2.11
  std::optional<std::size_t> device;
  std::string capacity;  // the limit that was set, where it matters how memory was short
  std::string svg;
  std::string record;    // --against-simulation: the measurement record of the recorded run
};

AllocatorOptions options_of(const ReplayArguments& arguments, const RecordedHistory& history) {
  const std::string torch = !arguments.torch.empty()         ? arguments.torch
                            : !history.torch_version.empty() ? history.torch_version
                                                             : "2.11";
  const Version version = parse_version(torch, "--torch");
  const std::string conf = arguments.alloc_conf.value_or(history.alloc_conf);
  AllocatorOptions options;
  try {
    options = parse_alloc_conf(conf, allocator_rules({version.major, version.minor}));
  } catch (const AllocConfError& e) {
    throw InputError(arguments.alloc_conf ? "--alloc-conf" : history.file, e.what(), e.fix());
  }
  if (!arguments.capacity.empty())
    options.capacity_limit = parse_bytes(arguments.capacity, "--capacity");
  return options;
}

void write_svg(const std::string& path, const RecordedHistory& history) {
  std::ofstream file(path);
  file << replay_svg(history);
  if (!file.flush())
    throw InputError("--svg " + path, "cannot be written", "name a file in a folder that exists");
}

// The record named like the history's file ("t05" of t05.json.gz), or the only one.
Record record_of(const ReplayArguments& arguments, const DiskFiles& files, const std::string& data) {
  const std::string name = std::filesystem::path(arguments.trace).filename().string();
  const std::string id = name.substr(0, name.find(".json"));
  const auto texts = record_texts(files, arguments.record);
  const Catalog catalog = load_catalog(files, data);
  for (const auto& text : texts) {
    if (texts.size() == 1 || record_id(text) == id) return read_record(text, catalog, files);
  }
  throw InputError("--against-simulation " + arguments.record, "has no record '" + id + "'",
                   "name a file with the measurement record of the recorded run");
}

int run_replay(const ReplayArguments& arguments, const std::string& data, Console& console) {
  TraceReadOptions read;
  read.device = arguments.device;
  const RecordedHistory history = read_trace(arguments.trace, read);
  if (!arguments.record.empty()) {
    const AgreementReport report = agreement_report(history, record_of(arguments, DiskFiles(), data).run);
    console.out << agreement_text(report);
    return report.training() == 1.0 ? 0 : 1;
  }
  const ReplayReport report = replay_report(history, options_of(arguments, history));
  console.out << replay_text(history, report);
  if (!arguments.svg.empty()) write_svg(arguments.svg, history);
  return report.equal() ? 0 : 1;
}

}  // namespace

void add_replay(Program& program) {
  const auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = program.app.add_subcommand(
      "replay", "Replay a recorded PyTorch allocator history and compare it, address by address");
  command
      ->add_option("TRACE", arguments->trace,
                   "A history, or torch.cuda.memory._snapshot() as JSON; may be gzipped")
      ->required();
  command->add_option("--alloc-conf", arguments->alloc_conf,
                      "PYTORCH_CUDA_ALLOC_CONF, if the recording does not say it");
  command->add_option("--torch", arguments->torch,
                      "The torch release that recorded, if it does not say: 2.11");
  command->add_option("--device", arguments->device,
                      "Which device of a snapshot (the one with most events)");
  command->add_option("--capacity", arguments->capacity,
                      "The limit on reserved memory that was set, e.g. 39GiB");
  command->add_option("--svg", arguments->svg,
                      "Draw memory over events, with segments and holes, into this file");
  command->add_option("--against-simulation", arguments->record,
                      "Hold the simulated events of this measurement record against the history instead");
  command->final_callback([&data = program.data, &action = program.action, arguments] {
    action = [&data, arguments](Console& console) { return run_replay(*arguments, data, console); };
  });
}

}  // namespace zplan
