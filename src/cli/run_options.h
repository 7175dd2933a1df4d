// The options that say what is trained, on what and how: declared once, resolved once, for every subcommand that
// simulates. What is not said is assumed, and each assumption is listed with the option that says otherwise.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/catalog.h"
#include "io/ds_config_reader.h"
#include "io/files.h"
#include "spec/assumption.h"
#include "spec/hardware.h"
#include "spec/measurement.h"
#include "spec/note.h"
#include "spec/run.h"
#include "time/coefficients.h"

namespace zplan {

// As written on the command line; empty: not said.
struct RunOptions {
  std::string model, gpus, like;
  std::string ds_config;
  std::optional<std::int64_t> seq_len, global_batch, micro_batch, grad_accum, lora_rank, freeze_layers, steps;
  std::string finetune, precision, optimizer, attention, recompute, recompute_impl;
  bool fused_loss = false;
  std::string host_ram, nvme, alloc_conf, capacity, rank;
  std::string deepspeed, torch, transformers;
  std::string profile;   // FILE or none
  std::string profiles;  // no option: the folder that is searched without one; empty: none is
};

// --model --gpus and the workload and version options: plan, simulate, check.
void add_run_options(CLI::App& command, RunOptions& options);
// --ds-config --like --rank --steps --capacity --recompute...: commands that take one given configuration.
void add_simulation_options(CLI::App& command, RunOptions& options);

struct RunInputs {
  Run run;                                  // run.ds is the given configuration where there is one
  Cluster cluster;
  bool all_ranks = false;                   // --rank all
  std::optional<std::int64_t> global_batch; // sequences a step over all ranks
  std::optional<std::int64_t> micro_batch, grad_accum;  // where said
  std::optional<DsConfigFile> ds_config;    // of --ds-config
  std::optional<Record> like;               // of --like
  TimeCoefficients coefficients;            // of the profile where there is one
  std::vector<Assumption> assumptions;
  std::vector<Note> notes;
};

// What is to be done with the inputs decides what must be said and what is searched for.
enum class Purpose {
  Plan,      // micro-batch, accumulation, checkpointing and ds_config are searched; the global batch is assumed
  Simulate,  // one configuration: a ds_config or a record is needed
  Check,     // like Simulate, but the ds_config is read by who checks it
};

// Throws InputError naming the option. Reads models, hardware files, ds_config and record through `files`.
RunInputs run_inputs(const RunOptions& options, Purpose purpose, const Catalog& catalog, const FileSource& files);

}  // namespace zplan
