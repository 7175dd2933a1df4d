// Seconds of ZeRO's collectives by phase, as DeepSpeed issues them, and whether they run beside the kernels.
// docs/time-model.md#communication
#pragma once

#include "spec/run.h"
#include "time/collectives.h"
#include "time/shape.h"

namespace zplan {

struct CommunicationSeconds {
  double forward = 0;            // each micro-step
  double backward = 0;           // each micro-step
  double boundary_backward = 0;  // besides, in the backward of the last micro-step
  double step = 0;               // after the optimizer; nothing runs beside it
  bool overlapped = false;       // forward and backward traffic on a stream of its own
  bool boundary_overlapped = false;
};
CommunicationSeconds communication_seconds(const Run& run, const Cluster& cluster, const ModelShape& shape,
                                           const TimeCoefficients& c);

// Bytes that gradients move through GPU memory on their way into buckets (on the compute stream) and within them (on
// the reduction stream, which is the compute stream where overlap_comm is off): of each micro-step and, besides, of
// the last.
struct GradientBytes {
  double compute = 0, reduction = 0;
  double boundary_compute = 0, boundary_reduction = 0;
};
GradientBytes gradient_bytes(const Run& run, const ModelShape& shape);

}  // namespace zplan
