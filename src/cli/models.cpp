// zplan models [show NAME]: the models known by name.
#include <memory>

#include "cli/commands.h"
#include "io/catalog.h"
#include "io/catalog_text.h"

namespace zplan {

void add_models(Program& program) {
  struct Options {
    bool json = false;
    std::string name;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("models", "The models known by name, with their sources");
  command->add_flag("--json", options->json, "Print JSON");
  CLI::App* show = command->add_subcommand("show", "One model, to the unit");
  show->add_option("NAME", options->name, "A name, or the path of a config.json")->required();
  show->add_flag("--json", options->json, "Print JSON");
  command->final_callback([&program_data = program.data, &action = program.action, options, show] {
    action = [&program_data, options, shows = show->parsed()](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, program_data);
      if (!shows) {
        console.out << (options->json ? models_json(catalog) : models_text(catalog));
        return 0;
      }
      const ModelEntry entry = model_entry(catalog, files, options->name, "zplan models show");
      console.out << (options->json ? model_json(entry) : model_text(entry));
      return 0;
    };
  });
}

}  // namespace zplan
