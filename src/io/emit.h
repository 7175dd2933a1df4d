// The files that make a plan run: ds_config.json, launch.sh, train.py and, where they are needed,
// hostfile and accelerate.yaml. Texts only; who calls this writes them.
//
// ds_config.json and the Trainer's arguments in launch.sh are made from the same values: the
// Hugging Face Trainer refuses a ds_config that says anything else than its own arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/files.h"
#include "spec/run.h"

namespace zplan {

// What starts the processes. Default: DeepSpeed's launcher, over ssh where there are several nodes.
enum class Launcher { DeepSpeed, Torchrun, Accelerate, Slurm };

// What the optimizer and its schedule are told. Nothing here changes memory; the defaults are the
// Trainer's, but for the learning rate, one epoch and a warm-up.
struct Training {
  double learning_rate = 1e-5;
  double weight_decay = 0;
  double adam_beta1 = 0.9, adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  std::string lr_scheduler_type = "cosine";
  double warmup_ratio = 0.03;  // of all steps
  double epochs = 1;
  friend bool operator==(const Training&, const Training&) = default;
};
// Adapters take ten times the learning rate of full fine-tuning.
Training default_training(Finetune finetune);

struct EmitOptions {
  Launcher launcher = Launcher::DeepSpeed;
  // "auto" wherever the Trainer fills in the very same number. Default off: the file says
  // everything itself.
  bool keep_auto = false;
  std::string
      model;  // a hub name or a folder; empty: the model's hub name (its first alias) or name
  std::string data;  // JSONL rows; empty: data.jsonl beside launch.sh
  std::string
      script;  // the user's own Trainer script, called with TrainingArguments only; empty: train.py
  std::string made_by = "zplan";
  Training training;
  friend bool operator==(const EmitOptions&, const EmitOptions&) = default;
};

// Throws InputError where the versions of `run` cannot do what its strategy says, or the cluster is
// not its world.
std::vector<OutputFile> emit_files(const Run& run, const Cluster& cluster,
                                   const EmitOptions& options);

// One of the files each; emit_files calls them.
std::string emit_ds_config(const Run& run, const EmitOptions& options);
std::string emit_launch(const Run& run, const Cluster& cluster, const EmitOptions& options);
std::string emit_hostfile(const Cluster& cluster);
std::string emit_accelerate_config(const Cluster& cluster);
std::string train_script();

}  // namespace zplan
