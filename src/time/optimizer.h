// Seconds of the optimizer step, on the GPU through its memory or on the CPU, with every copy to and from the host and
// the disk traffic that offload adds. docs/time-model.md#optimizer
#pragma once

#include "spec/run.h"
#include "time/coefficients.h"
#include "time/gathers.h"
#include "time/rates.h"
#include "time/shape.h"

namespace zplan {

struct OptimizerSeconds {
  double gpu = 0;                   // kernels of the step
  double cpu = 0;                   // gradients scaled, Adam, masters to the model's type; nothing runs beside it
  double nvme = 0;                  // states read and written around it
  double copy_up = 0;               // updated parameters to the GPU, after the step
  double forward_copies = 0;        // each micro-step: partitions of offloaded parameters up, offloaded boundaries down
  double backward_copies = 0;       // each micro-step: gradients down (the accumulator up), parameters and boundaries up
  double boundary_copies = 0;       // besides, in the last micro-step: fp32 gradients down
  double forward_nvme = 0, backward_nvme = 0;  // each micro-step: parameters on NVMe
};
OptimizerSeconds optimizer_seconds(const Run& run, const Cluster& cluster, const ModelShape& shape,
                                   const MicroStepGathers& gathers, const GpuRates& rates, const TimeCoefficients& c);

// What one owned parameter costs the GPU's step: Adam's one kernel, and the kernels around it.
struct OptimizerTraffic {
  double adam_bytes = 0;
  Traffic around;
};
OptimizerTraffic optimizer_traffic(const Run& run);
// Threads that CPU Adam has on each rank: as told, else the node's cores shared out.
double cpu_threads(const Run& run, const Cluster& cluster);

// Relative error of the rate of the CPU step: of the threads or of the node's memory, whichever limits this run.
double cpu_step_error(const Run& run, const Cluster& cluster, const TimeCoefficients& c);
// Relative error of the rate of copies: of those through pageable memory where a run has them.
double copies_error(const Run& run, const TimeCoefficients& c);

}  // namespace zplan
