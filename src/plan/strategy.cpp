#include "plan/strategy.h"

#include <algorithm>

#include "step/simulation.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr const char* kExpandable = "expandable_segments";

// "1e8" for a round power of ten times a digit, else "16,777,216".
std::string count_text(std::int64_t n) {
  std::int64_t digit = n;
  int zeros = 0;
  while (digit >= 10 && digit % 10 == 0) digit /= 10, ++zeros;
  if (digit > 0 && digit < 10 && zeros >= 4) return std::to_string(digit) + "e" + std::to_string(zeros);
  return text_grouped(n);
}

// Calls visit(key, value, default) for every number that the search may move.
template <class Visit>
void for_each_number(const ZeroConfig& z, Visit visit) {
  const ZeroConfig d;
  visit("reduce_bucket_size", z.reduce_bucket_size, d.reduce_bucket_size);
  if (z.stage < 3) return;
  visit("sub_group_size", z.sub_group_size, d.sub_group_size);
  visit("stage3_max_live_parameters", z.stage3_max_live_parameters, d.stage3_max_live_parameters);
  visit("stage3_max_reuse_distance", z.stage3_max_reuse_distance, d.stage3_max_reuse_distance);
  visit("stage3_prefetch_bucket_size", z.stage3_prefetch_bucket_size, d.stage3_prefetch_bucket_size);
  visit("stage3_param_persistence_threshold", z.stage3_param_persistence_threshold, d.stage3_param_persistence_threshold);
}

// Likewise (text, differs) for every switch.
template <class Visit>
void for_each_switch(const Strategy& s, Visit visit) {
  const auto& z = s.ds.zero;
  if (z.stage > 0) visit(z.overlap_comm ? "overlap_comm" : "overlap_comm off", z.overlap_comm != (z.stage == 3));
  visit("stage3_allgather_sequential", z.stage == 3 && z.stage3_allgather_sequential);
  visit("expandable segments", s.expandable_segments);
  visit("fused loss", s.workload.kernels.fused_linear_cross_entropy);
  visit("8-bit Adam", s.workload.optimizer == OptimizerKind::Adam8bit);
}

}  // namespace

Offload offload_of(const ZeroConfig& zero) {
  if (zero.offload_optimizer.device == OffloadDevice::Nvme) return Offload::Nvme;
  if (zero.offload_optimizer.device == OffloadDevice::None) return Offload::None;
  return zero.offload_param.device == OffloadDevice::None ? Offload::Optimizer : Offload::OptimizerAndParameters;
}

void set_offload(ZeroConfig& zero, Offload offload) {
  const auto device = offload == Offload::Nvme ? OffloadDevice::Nvme : OffloadDevice::Cpu;
  zero.offload_optimizer.device = offload == Offload::None ? OffloadDevice::None : device;
  zero.offload_param.device = offload < Offload::OptimizerAndParameters ? OffloadDevice::None : device;
}

void apply(const Strategy& strategy, Run& run) {
  run.ds = strategy.ds;
  run.workload = strategy.workload;
  if (strategy.expandable_segments == allocator_options(run).expandable_segments) return;
  // Whatever the conf says of it goes, with the comma before or behind it.
  auto& conf = run.alloc_conf;
  for (std::size_t at; (at = conf.find(kExpandable)) != std::string::npos;) {
    const auto end = std::min(conf.find(',', at), conf.size());
    while (at > 0 && conf[at - 1] == ' ') --at;
    if (at > 0) conf.erase(at - 1, end - at + 1);
    else conf.erase(0, end + 1);
  }
  if (strategy.expandable_segments) conf += (conf.empty() ? "" : ",") + std::string(kExpandable) + ":True";
}

Run applied(const Strategy& strategy, Run base) {
  apply(strategy, base);
  return base;
}

Strategy strategy_of(const Run& run) {
  return {run.ds, run.workload, allocator_options(run).expandable_segments};
}

std::vector<std::string> departures(const Strategy& strategy) {
  std::vector<std::string> out;
  for_each_switch(strategy, [&](const char* text, bool differs) {
    if (differs) out.push_back(text);
  });
  for_each_number(strategy.ds.zero, [&](const char* key, std::int64_t value, std::int64_t usual) {
    if (value != usual) out.push_back(std::string(key) + " " + count_text(value));
  });
  return out;
}

int departure_count(const Strategy& strategy) {
  int n = 0;
  for_each_switch(strategy, [&](const char*, bool differs) { n += differs; });
  for_each_number(strategy.ds.zero, [&](const char*, std::int64_t value, std::int64_t usual) { n += value != usual; });
  return n;
}

std::string group_name(int stage, Offload offload) {
  const std::string zero = stage == 0 ? "no ZeRO" : "ZeRO-" + std::to_string(stage);
  switch (offload) {
    case Offload::None: return zero;
    case Offload::Optimizer: return zero + ", optimizer on the CPU";
    case Offload::OptimizerAndParameters: return zero + ", optimizer and parameters on the CPU";
    case Offload::Nvme: return zero + ", optimizer and parameters on NVMe";
  }
  return zero;
}

std::string name(const Strategy& s) {
  const auto& every = s.workload.recompute.every;
  const std::string recompute = every == 0   ? "no recomputation"
                                : every == 1 ? "full recomputation"
                                             : "recomputation of every " + std::to_string(every) + (every == 2 ? "nd" : every == 3 ? "rd" : "th") + " layer";
  std::string out = group_name(s.ds.zero.stage, offload_of(s.ds.zero)) + ", micro-batch " +
                    std::to_string(s.ds.train_micro_batch_size_per_gpu);
  if (s.ds.gradient_accumulation_steps > 1) out += " x " + std::to_string(s.ds.gradient_accumulation_steps);
  return out + ", " + recompute;
}

}  // namespace zplan
