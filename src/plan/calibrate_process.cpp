#include "plan/calibrate_process.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "plan/host_need.h"
#include "plan/profile.h"
#include "step/nccl_memory.h"
#include "step/simulation.h"

namespace zplan {
namespace {

// How far zplan's own figures may be off on a machine that nobody measured.
constexpr double nccl_error = 0.20, kernels_error = 0.15, host_error = 0.15;
// The process group stands before a record's first phase. Its share of a communicator, on H200
// (docs/memory-model.md#nccl).
constexpr double group_share = static_cast<double>(nccl_group(kNcclNvlink).count) /
                               static_cast<double>(nccl_communicator(kNcclNvlink).count);

// Growth of what the driver counts beyond reserved, from the first phase to the last. The context and what the driver
// itself keeps back on an idle card (0.6 GiB in NVML's figure) are in both and drop out.
std::optional<double> growth(const Record& r) {
  if (r.phases.empty() || r.phases.front().phase != "start") return std::nullopt;
  const MeasuredPhase &start = r.phases.front(), &end = r.phases.back();
  if (!start.device_used || !end.device_used || end.step < 0) return std::nullopt;
  const Bytes g = (*end.device_used - end.reserved) - (*start.device_used - start.reserved);
  if (g.count <= 0) return std::nullopt;
  return static_cast<double>(g.count);
}

bool counts(const Record& r) { return r.measured_by.empty() && r.outcome == Record::Outcome::Ok; }
bool alone(const Record& r) { return r.ranks == Record::Ranks::Fake || r.run.world_size == 1; }

double communicator(const Record& r) { return static_cast<double>(outside_allocator(r.run).nccl.count); }

bool offloads(const Record& r) {
  const auto& z = r.run.ds.zero;
  return z.offload_optimizer.device != OffloadDevice::None || z.offload_param.device != OffloadDevice::None ||
         r.run.workload.recompute.offload;
}

struct Spread {
  double median = 0, error = 0;  // standard error of the median, from the scatter
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double median = values[values.size() / 2];
  for (double& v : values) v = std::abs(v - median);
  std::sort(values.begin(), values.end());
  // 1.48 x the median deviation is a normal error's standard deviation; 1.25 / sqrt(n) of that is the median's.
  return {median, 1.25 * 1.48 * values[values.size() / 2] / std::sqrt(static_cast<double>(values.size()))};
}

// `also`: an error that all values share, in bytes.
CalibratedCoefficient row(const ProcessEntry& e, double prior, double prior_error, const std::vector<double>& values,
                          double also) {
  CalibratedCoefficient c;
  c.name = e.name;
  c.unit = e.unit;
  c.prior = c.value = {prior, prior_error};
  c.measurements = static_cast<std::int64_t>(values.size());
  c.determined_by = e.determined_by;
  if (values.empty()) {
    c.why_not = "no measurement depends on it";
    return c;
  }
  constexpr double least = 0.01;  // of the value: what a run more or less loads
  const Spread s = spread(values);
  const double error = std::max(least, std::hypot(s.error, also) / s.median);
  if (s.median <= 0 || std::abs(std::log(s.median / prior)) > 4 * prior_error) {
    c.why_not = "would leave its bounds: another cause is in the measurements";
    return c;
  }
  c.value = {s.median, error};
  c.fitted = true;
  c.determined_by.clear();
  return c;
}

}  // namespace

std::vector<CalibratedCoefficient> calibrate_process(const std::vector<Record>& records) {
  std::vector<double> kernels, small, large, host;
  double small_prior = 0, large_prior = 0;
  const double kernels_prior = static_cast<double>(outside_allocator(Run{}).other.count);
  for (const Record& r : records) {
    if (!counts(r)) continue;
    if (const auto g = growth(r); g && alone(r)) kernels.push_back(*g);
    // What a process holds without the model: nothing of it is left on the host after init unless something offloads.
    if (!alone(r) && !offloads(r) && r.phases.back().step >= 0 && r.phases.back().host_rss.count > 0) {
      host.push_back(static_cast<double>((r.phases.back().host_rss - r.phases.back().host_pinned).count));
    }
  }
  CalibratedCoefficient k = row(process_table()[2], kernels_prior, kernels_error, kernels, 0);
  for (const Record& r : records) {
    const auto g = growth(r);
    if (!counts(r) || alone(r) || !g) continue;
    const bool few = r.run.world_size <= 4;
    (few ? small_prior : large_prior) = communicator(r);
    (few ? small : large).push_back(*g - k.value.value + group_share * communicator(r));
  }
  const double kernels_off = k.value.value * k.value.relative_error;
  const auto prior = [&](double measured, std::int64_t world) {
    if (measured > 0) return measured;
    Run any;
    if (!records.empty()) any.gpu = records.front().run.gpu;
    any.world_size = world;
    return static_cast<double>(outside_allocator(any).nccl.count);
  };
  const double host_prior = static_cast<double>(host_need(Shard{}, Workload{}, DsConfig{}).process.count);
  return {row(process_table()[0], prior(small_prior, 2), nccl_error, small, kernels_off),
          row(process_table()[1], prior(large_prior, 8), nccl_error, large, kernels_off), k,
          row(process_table()[3], host_prior, host_error, host, 0)};
}

}  // namespace zplan
