#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "io/lint.h"
#include "units/text.h"

namespace zplan {
namespace {
using Level = Finding::Level;

const char* name(Level level) {
  switch (level) {
    case Level::Error: return "error";
    case Level::Warning: return "warning";
    case Level::Info: return "info";
  }
  return "";
}

std::string counted(std::size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

std::string lint_text(const LintResult& result, const std::string& file, const LintSubject& subject) {
  std::string text = file + " for " + subject.run.model.name + " on " + subject.cluster.asked + ", DeepSpeed " +
                     zplan::text(subject.run.versions.deepspeed) + ": " + counted(result.count(Level::Error), "error") + ", " +
                     counted(result.count(Level::Warning), "warning") + ", " + counted(result.count(Level::Info), "remark") +
                     "\n";
  for (const Finding& f : result.findings) {
    std::string level = name(f.level);
    level.resize(8, ' ');
    text += "\n" + level + f.rule + "  " + f.where + (f.value.empty() ? "" : " = " + f.value) + "\n";
    text += "             " + f.why + (f.bytes ? " (" + zplan::text(*f.bytes) + ")" : "") + "\n";
    if (!f.fix.empty()) text += "             fix: " + f.fix + "\n";
  }
  return text;
}

std::string lint_json(const LintResult& result, const std::string& file, const LintSubject& subject) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& f : result.findings) {
    nlohmann::ordered_json one = {{"level", name(f.level)}, {"rule", f.rule}, {"where", f.where}};
    if (!f.value.empty()) one["value"] = nlohmann::ordered_json::parse(f.value);
    one["why"] = f.why;
    if (!f.fix.empty()) one["fix"] = f.fix;
    if (!f.patch.empty()) one["patch"] = nlohmann::ordered_json::parse(f.patch);
    if (f.bytes) one["bytes"] = f.bytes->count;
    findings.push_back(one);
  }
  return json_text({{"schema", "zplan.check/1"},
                    {"file", file},
                    {"model", subject.run.model.name},
                    {"gpus", subject.cluster.asked},
                    {"accepted", result.count(Level::Error) == 0},
                    {"findings", findings}});
}

}  // namespace zplan
