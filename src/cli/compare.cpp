// zplan compare: simulate what each record measured, and say how far off the prediction is.
#include <algorithm>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/tolerances.h"
#include "io/catalog.h"
#include "io/json_text.h"
#include "io/profile_reader.h"
#include "io/record_reader.h"
#include "io/report_json.h"
#include "io/report_text.h"
#include "plan/parallel.h"
#include "spec/error.h"

namespace zplan {
namespace {

struct Options {
  std::vector<std::string> files, tolerances;
  std::string profile;  // FILE; empty or "none": none
  bool json = false;
};

// `why_not`: what keeps the profile from the record; then it is compared without.
Comparison compared(const RecordText& text, const Catalog& catalog, const FileSource& files,
                    const std::optional<Profile>& profile, std::string& why_not) {
  try {
    Record record = read_record(text, catalog, files);
    if (profile) why_not = mismatch(*profile, record.run);
    if (!profile || !why_not.empty()) return compare(record, TimeCoefficients{});
    record.run.process = process_bytes(*profile, record.run.world_size);
    return compare(record, coefficients(*profile));
  } catch (const std::exception& e) {  // one bad record of many is a row, not the end
    Comparison c;
    c.id = text.where;
    c.error = e.what();
    return c;
  }
}

// A profile that says nothing about any of the records was not meant.
void check_used(const std::string& profile, const std::vector<std::string>& why_not) {
  const auto used = [](const std::string& w) { return w.empty(); };
  if (why_not.empty() || std::any_of(why_not.begin(), why_not.end(), used)) return;
  throw InputError("--profile " + profile, why_not.front(),
                   "name a profile of the GPU and the versions of the records");
}

}  // namespace

void add_compare(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.app.add_subcommand("compare", "Predicted against measured, per run and in sum");
  command->add_option("FILES", options->files, "Measurement records: a .json each, or many in a .jsonl")->required();
  command->add_option("--tolerance", options->tolerances, "QUANTITY=MEAN[,WORST]: exit 1 if the error is larger; repeatable")->take_all();
  command->add_option("--profile", options->profile,
                      "What zplan calibrate wrote, for the records it is true of (none)");
  command->add_flag("--json", options->json, "Print zplan.comparison/1");
  command->final_callback([&data = program.data, &action = program.action, options] {
    action = [&data, options](Console& console) {
      const DiskFiles files;
      const Catalog catalog = load_catalog(files, data);
      const std::vector<Tolerance> tolerances = tolerances_of(options->tolerances);
      std::optional<Profile> profile;
      if (!options->profile.empty() && options->profile != "none") {
        profile = read_profile(files.read(options->profile), options->profile);
      }
      std::vector<RecordText> texts;
      for (const auto& file : options->files) {
        const auto more = record_texts(files, file);
        texts.insert(texts.end(), more.begin(), more.end());
      }
      ComparisonReport r;
      r.version = ZPLAN_VERSION;
      r.runs.resize(texts.size());
      std::vector<std::string> why_not(texts.size());
      in_parallel(texts.size(), 2, [&](std::size_t i) {
        r.runs[i] = compared(texts[i], catalog, files, profile, why_not[i]);
      });
      if (profile) check_used(options->profile, why_not);
      r.summary = summarize(r.runs);
      r.exceeded = exceeded(r.summary, tolerances);
      console.out << (options->json ? json_text(comparison_json(r)) + "\n" : comparison_text(r, {console.colour}));
      return r.exceeded.empty() ? 0 : 1;
    };
  });
}

}  // namespace zplan
