// Models, GPUs and clusters by name, from the project's own data.
#pragma once

#include <string>

#include "spec/hardware.h"
#include "spec/model.h"
#include "spec/run.h"

namespace zplan::testing {

Model model(const std::string& name);
Gpu gpu(const std::string& id);
// `nodes` of `per_node` GPUs and nothing else told; NVLink where the GPU has it.
Cluster cluster(const std::string& gpu_id, std::int64_t per_node, std::int64_t nodes = 1,
                double network_gb_per_s = 0);

// A full fine-tune with full recomputation on every GPU of the cluster.
Run run(const std::string& model_name, const Cluster& cluster, int stage, std::int64_t micro_batch,
        std::int64_t accumulation = 1);

}  // namespace zplan::testing
