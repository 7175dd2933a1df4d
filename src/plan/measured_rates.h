// Rates of a machine measured kernel by kernel (zplan.rates/1), as measurements of the coefficients they decide.
// docs/calibration.md#rates
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/calibrate.h"
#include "spec/hardware.h"
#include "spec/workload.h"
#include "time/collectives.h"

namespace zplan {

struct MeasuredRates {
  std::string id;   // names the file in reports
  Cluster cluster;  // the GPUs it was measured on
  Precision precision = Precision::Bf16;
  struct Product {  // y[m, n] = x[m, k] w
    double m = 0, n = 0, k = 0, seconds = 0;
  };
  struct Attended {                                                          // causal scaled_dot_product_attention
    double batch = 0, tokens = 0, width = 0, forward_s = 0, backward_s = 0;  // width: heads x head_dim
  };
  struct ElementWise {
    double elements = 0, bytes = 0, seconds = 0;  // bytes: every read and write
    bool widens = false;                          // to a wider type: a kernel that computes an index for each element
  };
  struct Layer {  // one decoder layer as transformers runs it, without recomputation
    std::int64_t hidden = 0, intermediate = 0, heads = 0, tokens = 0;
    double forward_s = 0, backward_s = 0;
  };
  struct Sent {
    Collective kind = Collective::AllReduce;
    std::int64_t ranks = 2;
    double bytes = 0, seconds = 0;  // of the full buffer
  };
  struct CpuStep {  // the passes of DeepSpeed's step on the CPU over `elements` parameters, on every rank at once
    double threads = 0, elements = 0;
    double passes_s = 0;    // gradients scaled, Adam, masters to 16 bits
    double pageable_s = 0;  // masters to 16 bits on the GPU, less the conversion
  };
  std::vector<Product> products;
  std::vector<Attended> attention;
  std::vector<ElementWise> element_wise;
  std::vector<Layer> layers;
  std::vector<Sent> sent;
  std::vector<CpuStep> cpu_steps;
  std::optional<double> link_bytes_per_s;       // one GPU, mean of both directions
  std::optional<double> all_links_bytes_per_s;  // each of the node's GPUs when all copy at once; only with several
};

// Rows of one kind count as one measurement, their geometric mean: they share the card, its clock and its power.
std::vector<MeasuredGroup> measured_groups(const MeasuredRates& rates);

}  // namespace zplan
