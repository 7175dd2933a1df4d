#include "time/collectives.h"

#include "tests/catch.h"
#include "tests/time/machines.h"

using namespace zplan;
using testing::cluster;

namespace {
// nccl-tests' bus bandwidth of one large collective, GB/s.
double bus(const Cluster& c, std::int64_t ranks, Collective kind, double bytes) {
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const double rounds = kind == Collective::AllReduce ? 2 : 1;
  return rounds * bytes * share / collective_seconds(fabric(c, ranks, {}), kind, bytes, 1) / 1e9;
}
}  // namespace

TEST_CASE("bus bandwidth of large collectives, measured with nccl-tests", "[time]") {
  struct Row {
    const char* name;
    Cluster cluster;
    std::int64_t ranks;
    Collective kind;
    double measured, tolerance;
  };
  const std::vector<Row> rows = {
      {"A100, 2, vTrain", cluster("a100-sxm4-80gb", 8), 2, Collective::AllReduce, 197, 0.10},
      {"A100, 4, vTrain", cluster("a100-sxm4-80gb", 8), 4, Collective::AllReduce, 222, 0.10},
      {"A100, 8, ml-engineering", cluster("a100-sxm4-80gb", 8), 8, Collective::AllReduce, 235, 0.10},
      {"H200, 8, ml-engineering", cluster("h200-sxm-141gb", 8), 8, Collective::AllGather, 361, 0.10},
      {"H200, 8, NVLS", cluster("h200-sxm-141gb", 8), 8, Collective::AllReduce, 481, 0.10},
      {"H200, 4, no NVLS", cluster("h200-sxm-141gb", 8), 4, Collective::AllReduce, 363, 0.15},
      {"B200, 8, NVLS", cluster("b200-sxm-180gb", 8), 8, Collective::AllReduce, 846, 0.10},
      {"H200, 2, two cards of one host", cluster("h200-sxm-141gb", 2), 2, Collective::AllGather, 255, 0.15},
      {"H200, 2, two cards of one host", cluster("h200-sxm-141gb", 2), 2, Collective::AllReduce, 317, 0.15},
      {"H200, 4 nodes, p5en 3200 Gb/s", cluster("h200-sxm-141gb", 8, 4, 400), 32, Collective::AllReduce, 367, 0.10},
      {"B200, 4 nodes, p6 3200 Gb/s", cluster("b200-sxm-180gb", 8, 4, 400), 32, Collective::AllReduce, 382, 0.10},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(bus(r.cluster, r.ranks, r.kind, 4e9) == Approx(r.measured).epsilon(r.tolerance));
  }
}

TEST_CASE("small collectives cost latency, which grows with the ring", "[time]") {
  const auto us = [](const Cluster& c, Collective kind) {
    return 1e6 * collective_seconds(fabric(c, c.world_size(), {}), kind, 8192, 1);
  };
  CHECK(us(cluster("h200-sxm-141gb", 2), Collective::AllReduce) == Approx(28).epsilon(0.2));  // measured 24 to 32
  CHECK(us(cluster("h100-sxm5-80gb", 8), Collective::AllGather) == Approx(45).epsilon(0.2));  // SimuMax: 37 to 45
  const double two = us(cluster("h100-sxm5-80gb", 8, 2, 400), Collective::AllGather);
  const double sixty_four = us(cluster("h100-sxm5-80gb", 8, 64, 400), Collective::AllGather);
  CHECK(sixty_four > 5 * two);
  // The tree keeps the all-reduce of many nodes below its ring.
  CHECK(us(cluster("h100-sxm5-80gb", 8, 64, 400), Collective::AllReduce) < sixty_four);
}

TEST_CASE("one rank sends nothing", "[time]") {
  CHECK(collective_seconds(fabric(cluster("h200-sxm-141gb", 8), 1, {}), Collective::AllReduce, 1e9, 10) == 0);
}
