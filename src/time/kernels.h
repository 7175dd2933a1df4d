// GPU seconds of one micro-step's kernels: matrix products, fused attention and element-wise traffic, forward,
// recomputation and backward. docs/time-model.md#kernels
#pragma once

#include "spec/run.h"
#include "time/rates.h"
#include "time/shape.h"

namespace zplan {

struct KernelSeconds {
  double matmul = 0, attention = 0, element_wise = 0;
  double total() const { return matmul + attention + element_wise; }
  KernelSeconds& operator+=(const KernelSeconds& o) {
    matmul += o.matmul, attention += o.attention, element_wise += o.element_wise;
    return *this;
  }
  friend KernelSeconds operator*(double n, const KernelSeconds& k) {
    return {n * k.matmul, n * k.attention, n * k.element_wise};
  }
};

struct MicroStepKernels {
  KernelSeconds forward, recompute, backward;
};
MicroStepKernels micro_step_kernels(const Run& run, const ModelShape& shape, const GpuRates& rates);

// What the element-wise kernels of one layer have to do a token; the table of docs/time-model.md#element-wise-kernels.
Traffic layer_forward_traffic(const Model& model, const Workload& workload, double width, bool fp32_adapters);
Traffic layer_backward_traffic(const Model& model, const Workload& workload, double width, bool fp32_adapters, bool trains);

}  // namespace zplan
