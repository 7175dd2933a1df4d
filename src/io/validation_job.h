// What is known of a job before it is run to be validated, from a plan's files; and how a run ended, from its record.
#pragma once

#include <cstdint>
#include <string>

#include "io/files.h"

namespace zplan {

// The job as far as starting it needs to know.
struct ValidationJob {
  std::string what;                      // "Qwen3-8B, ZeRO-3, on 4 ranks"
  std::string gpu;                       // the planned card
  std::int64_t world_size = 1, nodes = 1;
  std::int64_t gpus_per_node() const { return world_size / nodes; }
  // What zplan-validate must be told; the probe reads it from the same file.
  std::string model, ds_config, recompute, recompute_impl, alloc_conf, load;
  std::int64_t seq_len = 0;
  std::string only_deepspeed;            // why zplan-validate cannot run it; empty: it can
};

// "Qwen3-8B, ZeRO-3, on 4 ranks".
std::string job_text(const std::string& model, std::int64_t stage, std::int64_t ranks);

// `path`: a plan's folder, its plan.json, or what `zplan simulate --json` printed. Throws InputError if there is none,
// or if nothing fits in the plan.
ValidationJob read_validation_job(const std::string& path, const FileSource& files);

// "" if the record at `path` holds a measurement, else how the run ended and why, in one line.
std::string unmeasured(const std::string& path, const FileSource& files);

}  // namespace zplan
