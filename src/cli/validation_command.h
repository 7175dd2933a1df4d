// What `zplan validate` runs: the DeepSpeed probe or zplan-validate, on the ranks of a plan or a record, as a command
// line. No process is started here. docs/validation.md#validate
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/catalog.h"
#include "io/files.h"
#include "io/validation_job.h"

namespace zplan {

enum class ValidationEngine { DeepSpeed, Native };
// "deepspeed" or "native". Throws InputError.
ValidationEngine validation_engine_named(const std::string& name, const std::string& where);

// As written on the command line.
struct ValidationOptions {
  std::string plan = "zplan-out", like;  // plan: a folder, its plan.json, or a simulation; like: FILE or FILE#ID
  ValidationEngine engine = ValidationEngine::DeepSpeed;
  std::string python = "python3", program = "zplan-validate";
  bool stand_in = false;                 // one rank on one GPU plays rank `rank` of the world
  std::optional<std::int64_t> rank, steps, timed_steps;
  std::string capacity, weights, history;
  std::string out = "measurements.json";
};

// Throws InputError if there is no plan, if nothing fits in it, or if the record is not there.
ValidationJob validation_job(const ValidationOptions& options, const Catalog& catalog, const FileSource& files);

// The processes this needs on each node: one with a stand-in, else one a GPU.
std::int64_t ranks_here(const ValidationJob& job, const ValidationOptions& options);

// The words of the command, for one node. Of several nodes it says $NODE_RANK and $MASTER_ADDR, which a shell on each
// fills in. `data`: the folder that holds validate/deepspeed. Throws InputError where the engine cannot run the job.
std::vector<std::string> validation_command(const ValidationJob& job, const ValidationOptions& options,
                                            const std::string& data);
// The same as a line for a shell; the two variables stay as they are.
std::string command_line(const std::vector<std::string>& words);

}  // namespace zplan
