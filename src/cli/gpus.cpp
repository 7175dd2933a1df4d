// zplan gpus [show NAME]: the GPUs and machines known by name.
#include <memory>

#include "cli/commands.h"
#include "io/catalog.h"
#include "io/catalog_text.h"

namespace zplan {

void add_gpus(Program& program) {
  struct Options {
    bool json = false;
    std::string name;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("gpus", "The GPUs and machines known by name, with their sources");
  command->add_flag("--json", options->json, "Print JSON");
  CLI::App* show = command->add_subcommand("show", "One GPU with the machines it is in, or one machine");
  show->add_option("NAME", options->name, "A GPU (A100-40G) or a machine (dgx-h100)")->required();
  show->add_flag("--json", options->json, "Print JSON");
  command->final_callback([&program_data = program.data, &action = program.action, options, show] {
    action = [&program_data, options, shows = show->parsed()](Console& console) {
      const Catalog catalog = load_catalog(DiskFiles(), program_data);
      if (!shows) {
        console.out << (options->json ? gpus_json(catalog) : gpus_text(catalog));
        return 0;
      }
      if (const NodeEntry* node = find_node(catalog, options->name)) {
        console.out << (options->json ? node_json(*node) : node_text(*node));
        return 0;
      }
      const GpuEntry& gpu = find_gpu(catalog, options->name, "zplan gpus show");
      console.out << (options->json ? gpu_json(gpu, catalog) : gpu_text(gpu, catalog));
      return 0;
    };
  });
}

}  // namespace zplan
