// What the search may choose from: one list of values an axis, the plain value first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/strategy.h"
#include "spec/hardware.h"
#include "spec/run.h"

namespace zplan {

// overlap_comm: as DeepSpeed's default for the stage, the other way, or as said whatever the stage.
enum class Overlap : std::uint8_t { Default, Other, On, Off };

struct Axes {
  // A family is one choice of these.
  std::vector<int> stages{0, 1, 2, 3};
  std::vector<Offload> offloads{Offload::None, Offload::Optimizer, Offload::OptimizerAndParameters, Offload::Nvme};
  std::vector<std::int64_t> micro_batches;
  std::vector<std::int64_t> recompute{0, 1, 2, 4};  // every n-th layer; 0: none
  std::vector<bool> fused_loss{false};
  std::vector<Finetune> finetunes;
  std::vector<OptimizerKind> optimizers;
  // Knobs within a family: most of them move memory, and time only a little.
  std::vector<bool> expandable_segments{false, true};
  std::vector<Overlap> overlap_comm{Overlap::Default, Overlap::Other};
  std::vector<std::int64_t> reduce_buckets{500'000'000, 200'000'000, 50'000'000, 16'000'000};
  std::vector<std::int64_t> sub_groups{1'000'000'000, 300'000'000, 100'000'000, 30'000'000};
  std::vector<std::int64_t> max_live{1'000'000'000, 300'000'000, 100'000'000};
  std::vector<std::int64_t> max_reuse{1'000'000'000, 100'000'000};
  std::vector<std::int64_t> prefetch{50'000'000, 10'000'000, 0};
  std::vector<std::int64_t> persistence{100'000, 1'000'000};
  std::vector<bool> sequential{false, true};
  friend bool operator==(const Axes&, const Axes&) = default;
};

// The axes for a run: micro-batches that divide the sequences of a rank, NVMe only where there is some, recomputation of
// every n-th layer only where transformers knows it, and what `base` fixes.
Axes default_axes(const Run& base, const Cluster& cluster, std::int64_t global_batch);

// --fix KEY=VALUE: one value for one axis. KEY is a ds_config's key, or stage, offload, micro_batch, recompute,
// expandable_segments, fused_loss. Throws InputError.
void fix_axis(Axes& axes, const std::string& assignment);

// The knobs of a family by number: index 0 is the plain one. Axes without effect in the stage have one value.
class KnobGrid {
 public:
  KnobGrid(const Axes& axes, int stage);
  std::int64_t size() const { return size_; }
  void set(std::int64_t index, Strategy& strategy) const;
  // How many indices share one step time: those that differ in expandable segments and sub-groups only.
  std::int64_t time_key(std::int64_t index) const { return index / timeless_; }
  std::int64_t time_keys() const { return size_ / timeless_; }
  // The first index of a key.
  std::int64_t first_of(std::int64_t key) const { return key * timeless_; }
  // Whatever the bounds see at its least: the last value of sub-groups and buckets, no second bucket.
  void set_frugal(Strategy& strategy) const;
  // Whatever the host and the network see at its least.
  void set_fastest(Strategy& strategy) const;

 private:
  bool overlap(Overlap said) const;
  int stage_;
  std::vector<bool> expandable_, sequential_;
  std::vector<Overlap> overlap_;
  std::vector<std::int64_t> buckets_, sub_groups_, max_live_, max_reuse_, prefetch_, persistence_;
  std::int64_t timeless_ = 1, size_ = 1;
};

}  // namespace zplan
