// Host memory of one rank: what offload keeps there, pinned memory with its rounding, and the load of the model.
// Closed forms of docs/memory-model.md#host, checked against measured pinned bytes.
#pragma once

#include <optional>

#include "plan/shard.h"
#include "spec/ds_config.h"
#include "spec/workload.h"
#include "units/units.h"

namespace zplan {

struct HostNeed {
  Bytes process;   // interpreter, torch, NCCL and DeepSpeed's libraries
  Bytes pinned;    // page-locked, as torch's host allocator rounds it
  Bytes pageable;  // fp32 master and Adam states on the CPU
  Bytes transient; // the larger of the load of the model and of what a step converts on the CPU
  Bytes total() const { return process + pinned + pageable + transient; }
};
// `process`: measured, in place of the usual one.
HostNeed host_need(const Shard& shard, const Workload& workload, const DsConfig& ds, std::optional<Bytes> process = {});

// Bytes on disk for a rank that offloads to NVMe.
Bytes nvme_need(const Shard& shard, const DsConfig& ds);

}  // namespace zplan
