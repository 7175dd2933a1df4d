// Seconds that the Python process of a rank needs to issue one micro-step and one optimizer step. It races the GPU: a
// phase takes as long as the slower of the two. docs/time-model.md#host
#pragma once

#include "spec/run.h"
#include "time/coefficients.h"
#include "time/gathers.h"
#include "time/shape.h"

namespace zplan {

struct HostSeconds {
  double forward = 0, backward = 0;  // of one micro-step
  double boundary_backward = 0;      // more in the backward of the last micro-step
  double step = 0;                   // of the optimizer step, at the boundary
  double forward_operators = 0, backward_operators = 0;  // kernels that one micro-step issues
};
HostSeconds host_seconds(const Run& run, const ModelShape& shape, const MicroStepGathers& gathers, const TimeCoefficients& c);

}  // namespace zplan
