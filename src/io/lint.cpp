#include "io/lint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/lint_rules.h"
#include "spec/error.h"

namespace zplan {
namespace {
using nlohmann::json;
using Level = Finding::Level;

// Rule of what the reader refuses, by where it stands and, where one place has several, by what is wrong.
std::string rule_of_refusal(const std::string& pointer, const std::string& problem) {
  const auto has = [&](const char* words) { return problem.find(words) != std::string::npos; };
  if (has("stands twice")) return "C03";
  if (has("\"auto\"")) return "C05";
  if (has("asked for")) {
    if (pointer == "/gradient_clipping") return "D04";
    return pointer == "/bf16/enabled" || pointer == "/fp16/enabled" ? "B02" : "A05";
  }
  if (has("unknown key")) return "C01";
  if (has("both names")) return "C06";
  if (has("removed it")) return pointer == "/amp" ? "B11" : "H00";
  struct Place { const char* pointer; const char* rule; };
  for (const Place& place : {Place{"/train_batch_size", "A01"}, Place{"/train_micro_batch_size_per_gpu", "A02"},
                             Place{"/fp16", "B01"}, Place{"/fp16/loss_scale", "B12"}, Place{"/amp", "B11"},
                             Place{"/bf16/bf16_master_weights_and_grads", "B08"}, Place{"/bf16/bf16_optimizer_states", "B08"},
                             Place{"/communication_data_type", "B13"}, Place{"/gradient_allreduce_op", "C24"},
                             Place{"/zero_optimization/legacy_stage1", "C20"},
                             Place{"/zero_optimization/offload_optimizer/ratio", "C08"},
                             Place{"/zero_optimization/zero_hpz_partition_size", "C30"},
                             Place{"/zero_optimization/offload_optimizer/nvme_path", "D18"},
                             Place{"/zero_optimization/offload_param/nvme_path", "D18"},
                             Place{"/optimizer/params/max_grad_norm", "D06"}}) {
    if (pointer == place.pointer) return place.rule;
  }
  if (pointer == "/optimizer/type") return has("does not work with ZeRO") ? "C28" : "D11";
  return "C00";  // DeepSpeed refuses the value
}

// Rule of what the reader remarks upon, by the note's code.
std::string rule_of_note(const std::string& code) {
  struct Name { const char* code; const char* rule; };
  for (const Name& name : {Name{"micro-batch-from-train-batch", "A04"}, Name{"unknown-key", "C02"},
                           Name{"auto-not-filled", "C04"}, Name{"offload-param-ignored", "C07"},
                           Name{"deprecated-key", "C09"}, Name{"activation-checkpointing-ignored", "E01"}}) {
    if (code == name.code) return name.rule;
  }
  return "C34";  // without effect, or not what its name says
}

DsContext context_of(const LintSubject& s) {
  DsContext context;
  context.world_size = s.run.world_size;
  context.versions = s.run.versions;
  if (!s.trainer) return context;
  HfArguments hf;
  hf.hidden_size = s.run.model.hidden;
  hf.micro_batch = s.micro_batch;
  hf.grad_accum = s.grad_accum;
  if (s.precision_said) hf.precision = s.run.ds.precision;
  hf.precision_if_auto = s.run.gpu.bf16 ? Precision::Bf16 : Precision::Fp16;
  context.hf = hf;
  return context;
}

// "auto" for which no argument was said stands for one sequence and one micro-batch here.
void settle_unsaid(json& config, const LintSubject& s) {
  if (!s.trainer) return;
  const auto settle = [&](const char* key, bool said) {
    if (!said && config.contains(key) && config[key] == "auto") config[key] = 1;
  };
  settle("train_micro_batch_size_per_gpu", s.micro_batch.has_value());
  settle("gradient_accumulation_steps", s.grad_accum.has_value());
  if (config.contains("train_batch_size") && config["train_batch_size"] == "auto" && !(s.micro_batch && s.grad_accum)) {
    config.erase("train_batch_size");
  }
}

std::string pointer_of(const std::string& where, const std::string& file) {
  return where.rfind(file + ":", 0) == 0 ? where.substr(file.size() + 1) : "";
}

// Takes the member at `pointer` out of the config; its section if there is no such member (a missing one).
bool take_out(json& config, std::string pointer) {
  while (!pointer.empty()) {
    const json::json_pointer at(pointer);
    if (config.contains(at)) {
      config.at(at.parent_pointer()).erase(at.back());
      return true;
    }
    pointer = pointer.substr(0, pointer.rfind('/'));
  }
  return false;
}

// Mends what was refused so that the rest can be read: a batch size takes the Trainer's, or one; all else goes.
bool mend(json& config, const std::string& pointer, const LintSubject& s) {
  if (pointer == "/train_micro_batch_size_per_gpu") config["train_micro_batch_size_per_gpu"] = s.micro_batch.value_or(1);
  else if (pointer == "/gradient_accumulation_steps") config["gradient_accumulation_steps"] = s.grad_accum.value_or(1);
  else return take_out(config, pointer);
  return true;
}

// Reads the config as often as DeepSpeed would refuse it, each time without what was refused.
std::optional<DsConfigFile> read_all(json config, const std::string& file, const LintSubject& subject, Findings& found) {
  const DsContext context = context_of(subject);
  for (int tries = 0; tries < 50; ++tries) {
    try {
      return read_ds_config(config, file, context);
    } catch (const InputError& error) {
      const std::string pointer = pointer_of(error.where(), file);
      found.push_back({Level::Error, rule_of_refusal(pointer, error.problem()), pointer, "", error.problem(), error.fix(), "",
                       std::nullopt});
      if (!mend(config, pointer, subject)) return std::nullopt;
    }
  }
  return std::nullopt;
}

std::string shown_value(const json& config, const std::string& pointer) {
  if (pointer.empty() || pointer[0] != '/') return "";
  const json::json_pointer at(pointer);
  if (!config.contains(at) || config.at(at).is_structured()) return "";
  return config.at(at).dump();
}

int rank(Level level) { return static_cast<int>(level); }

}  // namespace

std::size_t LintResult::count(Finding::Level level) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.level == level; }));
}

LintResult lint(const std::string& text, const std::string& file, const LintSubject& subject) {
  const json whole = parse_json(text, file, Comments::Skipped);
  const JsonObject must_be_object(whole, file);
  json config = whole;
  settle_unsaid(config, subject);
  LintResult result;
  result.config = read_all(config, file, subject, result.findings);
  if (result.config) {
    for (const Note& note : result.config->notes) {
      result.findings.push_back({note.level == Note::Level::Warning ? Level::Warning : Level::Info, rule_of_note(note.code),
                                 "", "", note.text, note.fix, "", std::nullopt});
    }
    Run run = subject.run;
    run.ds = result.config->config;
    const Shard held = worst_shard(run.model, run.workload, run.world_size);
    const LintView view{*result.config, run.ds, run.ds.zero, subject, run, config, held, run.gpu.memory_total};
    lint_precision(view, result.findings);
    lint_zero(view, result.findings);
    lint_training(view, result.findings);
  }
  for (Finding& f : result.findings) {
    f.value = shown_value(whole, f.where);
    if (f.where.rfind("--", 0) != 0) f.where = f.where.empty() ? file : file + ":" + f.where;
  }
  std::stable_sort(result.findings.begin(), result.findings.end(),
                   [](const Finding& a, const Finding& b) { return rank(a.level) < rank(b.level); });
  return result;
}

}  // namespace zplan
