// zplan compare: simulate what each record measured, and say how far off the prediction is.
#include <memory>

#include "cli/commands.h"
#include "cli/tolerances.h"
#include "io/catalog.h"
#include "io/json_text.h"
#include "io/record_reader.h"
#include "io/report_json.h"
#include "io/report_text.h"
#include "plan/parallel.h"
#include "spec/error.h"

namespace zplan {
namespace {

struct Options {
  std::vector<std::string> files, tolerances;
  bool json = false;
};

Comparison compared(const RecordText& text, const Catalog& catalog, const FileSource& files) {
  try {
    return compare(read_record(text, catalog, files), TimeCoefficients{});
  } catch (const std::exception& e) {  // one bad record of many is a row, not the end
    Comparison c;
    c.id = text.where;
    c.error = e.what();
    return c;
  }
}

}  // namespace

void add_compare(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("compare", "Predicted against measured, per run and in sum");
  command->add_option("FILES", options->files, "Measurement records: a .json each, or many in a .jsonl")->required();
  command->add_option("--tolerance", options->tolerances, "QUANTITY=MEAN[,WORST]: exit 1 if the error is larger; repeatable")->take_all();
  command->add_flag("--json", options->json, "Print zplan.comparison/1");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, data);
      const std::vector<Tolerance> tolerances = tolerances_of(options->tolerances);
      std::vector<RecordText> texts;
      for (const auto& file : options->files) {
        const auto more = record_texts(files, file);
        texts.insert(texts.end(), more.begin(), more.end());
      }
      ComparisonReport r;
      r.version = ZPLAN_VERSION;
      r.runs.resize(texts.size());
      in_parallel(texts.size(), 2, [&](std::size_t i) { r.runs[i] = compared(texts[i], catalog, files); });
      r.summary = summarize(r.runs);
      r.exceeded = exceeded(r.summary, tolerances);
      console.out << (options->json ? json_text(comparison_json(r)) + "\n" : comparison_text(r, {console.colour}));
      return r.exceeded.empty() ? 0 : 1;
    };
  });
}

}  // namespace zplan
