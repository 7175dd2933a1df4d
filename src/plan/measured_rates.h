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
  struct Streamed {  // an element-wise kernel: every read and write
    double elements = 0, bytes = 0, seconds = 0;
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
  std::vector<Product> products;
  std::vector<Attended> attention;
  std::vector<Streamed> streamed;
  std::vector<Layer> layers;
  std::vector<Sent> sent;
  std::optional<double> link_bytes_per_s;       // one GPU, mean of both directions
  std::optional<double> all_links_bytes_per_s;  // each of the node's GPUs when all copy at once; only with several
};

// Rows of one kind count as one measurement, their geometric mean: they share the card, its clock and its power.
// CPU Adam's bare kernel is not used: DeepSpeed's step on the CPU takes four times as long (clipping, conversion,
// norm).
std::vector<MeasuredGroup> measured_groups(const MeasuredRates& rates);

}  // namespace zplan
