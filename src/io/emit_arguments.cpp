#include "io/emit_arguments.h"

#include "io/json_text.h"

namespace zplan {
namespace {

using Lines = std::vector<std::string>;

void add(Lines& lines, const std::string& name, const std::string& value) {
  lines.push_back("--" + name + " " + shell_word(value));
}
void add(Lines& lines, const std::string& name, std::int64_t value) {
  add(lines, name, std::to_string(value));
}
// As in ds_config.json, so that the Trainer reads the same double from both.
void add_number(Lines& lines, const std::string& name, double value) {
  add(lines, name, nlohmann::ordered_json(value).dump());
}
void add_true(Lines& lines, const std::string& name) { add(lines, name, "true"); }

const char* finetune_name(Finetune finetune) {
  switch (finetune) {
    case Finetune::Full:
      return "full";
    case Finetune::Lora:
      return "lora";
    case Finetune::Qlora:
      return "qlora";
    case Finetune::Freeze:
      return "freeze";
  }
  return "";
}

const char* attention_name(Attention attention) {
  switch (attention) {
    case Attention::Sdpa:
      return "sdpa";
    case Attention::Flash:
      return "flash_attention_2";
    case Attention::Eager:
      return "eager";
  }
  return "";
}

// The Trainer's "optim". With an optimizer section in ds_config.json it is not asked.
const char* optimizer_name(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::DeepSpeedAdam:
      return nullptr;
    case OptimizerKind::TorchAdamFused:
      return "adamw_torch_fused";
    case OptimizerKind::TorchAdamForeach:
      return "adamw_torch";
    case OptimizerKind::Adam8bit:
      return "adamw_bnb_8bit";
  }
  return nullptr;
}

// Arguments that only train.py has.
void add_script_arguments(Lines& lines, const Run& run) {
  const Workload& w = run.workload;
  add(lines, "seq_len", w.seq_len);
  add(lines, "finetune", finetune_name(w.finetune));
  if (w.adapted()) add(lines, "lora_rank", w.lora_rank);
  if (w.finetune == Finetune::Freeze) add(lines, "freeze_layers", w.freeze_layers);
  add(lines, "attn_implementation", attention_name(w.attention));
}

void add_recompute(Lines& lines, const Recompute& recompute) {
  if (!recompute.any()) return add(lines, "gradient_checkpointing", "false");
  add_true(lines, "gradient_checkpointing");
  nlohmann::ordered_json kwargs = {{"use_reentrant", recompute.impl == RecomputeImpl::Reentrant}};
  if (recompute.every > 1) kwargs["every_n_layers"] = recompute.every;
  if (recompute.offload) kwargs["offload"] = true;
  add(lines, "gradient_checkpointing_kwargs", kwargs.dump());
}

void add_kernels(Lines& lines, const Kernels& kernels) {
  if (!kernels.any()) return;
  add_true(lines, "use_liger_kernel");
  const nlohmann::ordered_json config = {
      {"rope", kernels.rope},
      {"rms_norm", kernels.rms_norm},
      {"swiglu", kernels.swiglu},
      {"cross_entropy", false},
      {"fused_linear_cross_entropy", kernels.fused_linear_cross_entropy}};
  add(lines, "liger_kernel_config", config.dump());
}

// transformers 5 reads a warm-up below one step as a share of all steps; before, that was
// warmup_ratio.
const char* warmup_name(const Version& transformers) {
  return transformers >= Version{5, 0, 0} ? "warmup_steps" : "warmup_ratio";
}

}  // namespace

std::string shell_word(const std::string& text) {
  const std::string plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> training_arguments(const Run& run, const EmitOptions& options) {
  const Training& t = options.training;
  Lines lines;
  if (options.script.empty()) add_script_arguments(lines, run);
  add(lines, "per_device_train_batch_size", run.ds.train_micro_batch_size_per_gpu);
  add(lines, "gradient_accumulation_steps", run.ds.gradient_accumulation_steps);
  if (run.ds.precision == Precision::Bf16) add_true(lines, "bf16");
  if (run.ds.precision == Precision::Fp16) add_true(lines, "fp16");
  add_recompute(lines, run.workload.recompute);
  add_kernels(lines, run.workload.kernels);
  if (const char* name = optimizer_name(run.workload.optimizer)) add(lines, "optim", name);
  add_number(lines, "max_grad_norm", run.ds.gradient_clipping);
  add_number(lines, "learning_rate", t.learning_rate);
  add_number(lines, "weight_decay", t.weight_decay);
  add_number(lines, "adam_beta1", t.adam_beta1);
  add_number(lines, "adam_beta2", t.adam_beta2);
  add_number(lines, "adam_epsilon", t.adam_epsilon);
  add(lines, "lr_scheduler_type", t.lr_scheduler_type);
  add_number(lines, warmup_name(run.versions.transformers), t.warmup_ratio);
  add_number(lines, "num_train_epochs", t.epochs);
  add_true(lines,
           "dataloader_drop_last");  // a smaller last batch would be another size for the allocator
  add(lines, "logging_steps", 1);
  add(lines, "save_strategy", "no");  // train.py saves once, at the end
  add(lines, "report_to", "none");
  return lines;
}

}  // namespace zplan
