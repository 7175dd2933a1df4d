// Seconds of ZeRO's collectives by phase, as DeepSpeed issues them, and whether they run beside the kernels.
// docs/time-model.md#communication
#pragma once

#include "spec/run.h"
#include "time/collectives.h"
#include "time/gathers.h"
#include "time/shape.h"

namespace zplan {

struct CommunicationSeconds {
  double forward = 0;            // each micro-step
  double backward = 0;           // each micro-step
  double boundary_backward = 0;  // besides, in the backward of the last micro-step
  double backward_exposed = 0;   // of backward: the last bucket, which is full when the last kernel has run
  double boundary_exposed = 0;   // of boundary_backward
  double step = 0;               // after the optimizer; nothing runs beside it
  bool overlapped = false;       // forward and backward traffic on a stream of its own
  bool boundary_overlapped = false;
};
CommunicationSeconds communication_seconds(const Run& run, const Cluster& cluster, const ModelShape& shape,
                                           const MicroStepGathers& gathers, const TimeCoefficients& c);

// Bytes that gradients move through GPU memory on their way into buckets and within them: of each micro-step and, besides,
// of the last. With overlap_comm the latter are on the reduction stream: beside other kernels, but not for free, since
// both need the same memory.
struct GradientBytes {
  double each = 0, boundary = 0;
};
GradientBytes gradient_bytes(const Run& run, const ModelShape& shape);

}  // namespace zplan
