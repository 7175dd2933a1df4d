// The GPUs of this machine, as the NVIDIA driver names them. NVML is loaded at run time: neither building nor
// planning needs it.
#pragma once

#include "io/catalog.h"
#include "spec/hardware.h"

namespace zplan {

// Throws InputError if there is no driver, no GPU, an unknown card, or cards of several kinds.
Cluster local_cluster(const Catalog& catalog);

}  // namespace zplan
