// Faults of a ds_config in the light of the model, the GPUs and the versions it is meant for.
// Each finding says the rule, the place, why it matters, how to mend it, and what it costs where that is known.
// The rules and their evidence: docs/files.md#lint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/ds_config_reader.h"
#include "spec/hardware.h"
#include "spec/run.h"
#include "units/units.h"

namespace zplan {

struct Finding {
  enum class Level { Error, Warning, Info };  // stops the run or makes it wrong; likely not as meant; worth knowing
  Level level = Level::Info;
  std::string rule;              // "C07"
  std::string where;             // "ds.json:/zero_optimization/offload_param", or an option
  std::string value;             // what stands there, as JSON; empty: nothing
  std::string why, fix;
  std::string patch;             // the fix as a JSON merge patch (RFC 7396); empty: not that simple
  std::optional<Bytes> bytes;    // on the GPU unless `why` says otherwise
  friend bool operator==(const Finding&, const Finding&) = default;
};

// What the file is for. `run.ds` is not looked at: the file says it.
struct LintSubject {
  Run run;
  Cluster cluster;
  bool trainer = true;           // run by the Hugging Face Trainer, which fills "auto"; else DeepSpeed alone
  std::optional<std::int64_t> micro_batch, grad_accum;  // the Trainer's arguments, where said
  bool precision_said = false;   // run.ds.precision was asked for
};

struct LintResult {
  std::vector<Finding> findings;         // errors first, then warnings, then the rest; by place within each
  std::optional<DsConfigFile> config;    // as read once what DeepSpeed refuses is taken out; none: not readable
  std::size_t count(Finding::Level level) const;
};

// Throws InputError only for text that is no JSON object.
LintResult lint(const std::string& text, const std::string& file, const LintSubject& subject);

std::string lint_text(const LintResult& result, const std::string& file, const LintSubject& subject);
std::string lint_json(const LintResult& result, const std::string& file, const LintSubject& subject);

}  // namespace zplan
