// The rules that look at a config as a whole. Each gives what it finds or nothing; a rule whose input is missing
// is silent. Ids are those of docs/files.md#lint.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/lint.h"
#include "plan/shard.h"

namespace zplan {

// All a rule may look at.
struct LintView {
  const DsConfigFile& file;
  const DsConfig& ds;
  const ZeroConfig& zero;
  const LintSubject& subject;
  const Run& run;                 // the subject's, with run.ds = ds
  const nlohmann::json& json;     // the file
  const Shard& shard;             // of the rank with most to hold
  Bytes gpu;                      // of a card, as torch reports it
  bool given(const std::string& pointer) const { return file.given.count(pointer) > 0; }
};

// A finding whose `where` is still a pointer into the file ("" : the whole file) or begins with "--": an option.
using Findings = std::vector<Finding>;

void lint_zero(const LintView& view, Findings& found);       // stages, buckets, limits, offload
void lint_precision(const LintView& view, Findings& found);  // precision and optimizer
void lint_training(const LintView& view, Findings& found);   // activations, attention, adapters, versions

}  // namespace zplan
