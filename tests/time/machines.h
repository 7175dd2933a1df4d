// GPUs and nodes as the hardware files state them, for tests that need no files.
#pragma once

#include <string>

#include "spec/hardware.h"

namespace zplan::testing {

// Throws std::out_of_range for an id that is not in the table.
Gpu gpu(const std::string& id);
// `nodes` of `per_node` GPUs; NVLink where the GPU has it.
Cluster cluster(const std::string& gpu_id, std::int64_t per_node, std::int64_t nodes = 1,
                double network_gb_per_s = 0);

}  // namespace zplan::testing
