// One choice of everything that a plan may choose, and how it is told from others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "spec/ds_config.h"
#include "spec/run.h"
#include "spec/workload.h"

namespace zplan {

// Where optimizer states and parameters live. Nvme: both on disk (ZeRO-Infinity).
enum class Offload : std::uint8_t { None, Optimizer, OptimizerAndParameters, Nvme };
inline constexpr std::array<std::string_view, 4> offload_words{"none", "optimizer", "optimizer+param", "nvme"};
inline std::string offload_word(Offload offload) { return std::string(offload_words[static_cast<std::size_t>(offload)]); }
Offload offload_of(const ZeroConfig& zero);
void set_offload(ZeroConfig& zero, Offload offload);

struct Strategy {
  DsConfig ds;
  Workload workload;
  bool expandable_segments = false;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// `base` under this strategy. Nothing is allocated where base's alloc_conf already says the same.
void apply(const Strategy& strategy, Run& run);
Run applied(const Strategy& strategy, Run base);
// The strategy that a run follows.
Strategy strategy_of(const Run& run);

// Keys that differ from DeepSpeed's defaults, in the order of a ds_config: what a reader has to understand.
// "sub_group_size 1e8".
std::vector<std::string> departures(const Strategy& strategy);
// As many, without making the texts.
int departure_count(const Strategy& strategy);

// "ZeRO-3, optimizer on the CPU".
std::string group_name(int stage, Offload offload);
// "ZeRO-3, micro-batch 4 x 4, recompute full".
std::string name(const Strategy& strategy);

}  // namespace zplan
