#include "time/step_time.h"

#include <algorithm>
#include <cmath>

#include "time/communication.h"
#include "time/host.h"
#include "time/kernels.h"
#include "time/optimizer.h"

namespace zplan {
namespace {

// One phase: kernels, collectives, copies and the host, each with its own seconds.
struct Phase {
  double kernels = 0, communication = 0, copies = 0, nvme = 0, host = 0;
  double exposed = 0;      // of the collectives: what comes after the last kernel
  bool overlapped = true;  // collectives and copies beside the kernels
};

struct Won {
  std::array<double, 6> seconds{};
  void add(Limiter l, double s) { seconds[static_cast<std::size_t>(l)] += s; }
};

// Streams run side by side but not for free: the longest decides, and a share of the others shows all the same
// (kernels and collectives share memory and SMs); what comes after the last kernel shows whole. The host then races what the
// GPU has to do.
double run_phase(const Phase& p, double times, double loss, StepTime& t, Won& won) {
  const double exposed = p.overlapped ? p.exposed : 0, communication = p.communication - exposed;
  const double others = p.communication + p.copies + p.nvme;
  const double hideable = p.kernels + communication + p.copies + p.nvme;
  const double longest = std::max({p.kernels, communication, p.copies, p.nvme});
  const double device = (p.overlapped ? longest + loss * (hideable - longest) : hideable) + exposed;
  const double seconds = std::max(p.host, device);
  const auto add = [&](TimePart part, double s) { t.parts[static_cast<std::size_t>(part)] += times * s; };
  if (others > 0) {
    const double shown = device - p.kernels;
    add(TimePart::Communication, shown * p.communication / others);
    add(TimePart::Copies, shown * p.copies / others);
    add(TimePart::Nvme, shown * p.nvme / others);
  }
  add(TimePart::Host, seconds - device);
  if (p.host > device) {
    won.add(Limiter::Host, times * seconds);
  } else if (p.kernels >= others) {
    won.add(Limiter::Compute, times * seconds);
  } else {
    const bool network = p.communication >= p.copies && p.communication >= p.nvme;
    won.add(network ? Limiter::Communication : (p.copies >= p.nvme ? Limiter::Copies : Limiter::Nvme), times * seconds);
  }
  t.gpu_busy_s += times * p.kernels;
  t.host_busy_s += times * p.host;
  t.communication_busy_s += times * p.communication;
  t.copies_busy_s += times * p.copies;
  return seconds;
}

double relative_error_of(TimePart part, const Run& run, const Cluster& cluster, const GpuRates& rates,
                         const TimeCoefficients& c) {
  switch (part) {
    case TimePart::Matmul: return rates.matmul_error;
    case TimePart::Attention: return rates.attention_error;
    case TimePart::ElementWise: return std::hypot(c.memory_fraction.relative_error, c.indexed_per_clock.relative_error) / 2;
    case TimePart::Optimizer: return c.fused_adam_fraction.relative_error;
    case TimePart::Recompute: return std::max(rates.matmul_error, c.memory_fraction.relative_error / 2);
    case TimePart::Host:
      return run.ds.zero.stage == 3 ? c.host_zero3_module_s.relative_error : c.host_operator_s.relative_error;
    case TimePart::Communication: return std::hypot(c.nvlink_fraction.relative_error, c.overlap_loss.relative_error / 2);
    case TimePart::Copies: return copies_error(run, c);
    case TimePart::CpuOptimizer: return cpu_step_error(run, cluster, c);
    case TimePart::Nvme: return c.nvme_read_gb_per_s.relative_error;
  }
  return 0;
}

// Parts are taken as independent of each other and of what no part explains: runs of one configuration differ, too.
void add_uncertainty(StepTime& t, const Run& run, const Cluster& cluster, const GpuRates& rates,
                     const TimeCoefficients& c) {
  const double total = t.total().count, unexplained = c.unexplained_share.value * total;
  double sum = unexplained * unexplained, largest = 0;
  for (std::size_t i = 0; i < time_parts; ++i) {
    const auto part = static_cast<TimePart>(i);
    const double error = t.parts[i] * relative_error_of(part, run, cluster, rates, c);
    sum += error * error;
    if (error > largest) largest = error, t.least_certain = part;
  }
  // A race that the host has nearly lost is as uncertain as the host: what could still show counts half.
  const double slower = std::min(0.3, relative_error_of(TimePart::Host, run, cluster, rates, c));
  const double hidden_host = std::max(0.0, t.host_busy_s * (1 + slower) - total);
  sum += hidden_host * hidden_host / 4;
  t.relative_error = total > 0 ? std::sqrt(sum) / total : 0;
}

}  // namespace

StepTime predict_step_time(const Run& run, const Cluster& cluster, const TimeCoefficients& c) {
  const ModelShape shape = model_shape(run.model, run.workload);
  const GpuRates rates = gpu_rates(run.gpu, run.ds.precision, run.workload.attention, c);
  const MicroStepKernels kernels = micro_step_kernels(run, shape, rates);
  const MicroStepGathers gathers = micro_step_gathers(run, shape);
  const HostSeconds host = host_seconds(run, shape, gathers, c);
  const CommunicationSeconds network = communication_seconds(run, cluster, shape, gathers, c);
  const GradientBytes gradients = gradient_bytes(run, shape);
  const OptimizerSeconds optimizer = optimizer_seconds(run, cluster, shape, gathers, rates, c);
  const double micro_steps = static_cast<double>(run.ds.gradient_accumulation_steps);
  const double loss = c.overlap_loss.value;

  StepTime t;
  Won won;
  t.tokens_per_gpu = micro_steps * static_cast<double>(run.tokens());
  const double into_buckets = rates.seconds({gradients.each, 0}), last_into = rates.seconds({gradients.boundary, 0});
  const double forward_gaps = host.forward_operators * c.kernel_gap_s.value;
  const double backward_gaps = host.backward_operators * c.kernel_gap_s.value;
  const double forward = kernels.forward.total() + forward_gaps;
  const double backward = kernels.backward.total() + kernels.recompute.total() + backward_gaps + into_buckets;

  t.forward_s = run_phase({forward, network.forward, optimizer.forward_copies, optimizer.forward_nvme, host.forward, 0,
                           network.overlapped},
                          micro_steps, loss, t, won);
  const Phase usual{backward, network.backward, optimizer.backward_copies, optimizer.backward_nvme, host.backward,
                    network.backward_exposed, network.overlapped};
  if (micro_steps > 1) t.backward_s = run_phase(usual, micro_steps - 1, loss, t, won);
  Phase last = usual;
  last.kernels += last_into;
  last.communication += network.boundary_backward;
  last.exposed += network.boundary_exposed;
  last.copies += optimizer.boundary_copies;
  last.host += host.boundary_backward;
  last.overlapped = network.overlapped || network.boundary_overlapped;
  t.last_backward_s = run_phase(last, 1, loss, t, won);
  if (micro_steps <= 1) t.backward_s = t.last_backward_s;

  const auto add = [&t](TimePart part, double s) { t.parts[static_cast<std::size_t>(part)] += s; };
  add(TimePart::Matmul, micro_steps * (kernels.forward.matmul + kernels.backward.matmul));
  add(TimePart::Attention, micro_steps * (kernels.forward.attention + kernels.backward.attention));
  add(TimePart::ElementWise,
      micro_steps * (kernels.forward.element_wise + kernels.backward.element_wise + forward_gaps + backward_gaps + into_buckets) +
          last_into);
  add(TimePart::Recompute, micro_steps * kernels.recompute.total());

  // The step: norms are waited for between launches, so that the host's time adds to the GPU's; then the gather.
  add(TimePart::Optimizer, optimizer.gpu);
  add(TimePart::Host, host.step);
  add(TimePart::Communication, network.step);
  add(TimePart::CpuOptimizer, optimizer.cpu);
  add(TimePart::Copies, optimizer.copy_up);
  add(TimePart::Nvme, optimizer.nvme);
  won.add(Limiter::Compute, optimizer.gpu);
  won.add(Limiter::Host, host.step);
  won.add(Limiter::Communication, network.step);
  won.add(Limiter::CpuOptimizer, optimizer.cpu);
  won.add(Limiter::Copies, optimizer.copy_up);
  won.add(Limiter::Nvme, optimizer.nvme);
  t.step_s = optimizer.gpu + host.step + network.step + optimizer.cpu + optimizer.copy_up + optimizer.nvme;
  t.gpu_busy_s += optimizer.gpu;
  t.host_busy_s += host.step;
  t.communication_busy_s += network.step;
  t.copies_busy_s += optimizer.copy_up;
  t.limiter = static_cast<Limiter>(std::max_element(won.seconds.begin(), won.seconds.end()) - won.seconds.begin());
  add_uncertainty(t, run, cluster, rates, c);
  return t;
}

Seconds step_time_lower_bound(const Run& run, const Cluster& cluster, const TimeCoefficients& c) {
  const ModelShape shape = model_shape(run.model, run.workload);
  const GpuRates rates = gpu_rates(run.gpu, run.ds.precision, run.workload.attention, c);
  const MicroStepKernels k = micro_step_kernels(run, shape, rates);
  // How often is gathered depends on every setting of stage 3, and not in one direction: a bound has none of it.
  const HostSeconds host = host_seconds(run, shape, {}, c);
  const OptimizerSeconds optimizer = optimizer_seconds(run, cluster, shape, {}, rates, c);
  const double micro_steps = static_cast<double>(run.ds.gradient_accumulation_steps);
  const double forward = std::max(k.forward.total(), host.forward);
  const double kernels = k.recompute.total() + k.backward.total();
  const double backward = std::max(kernels, host.backward);
  const double last_backward = std::max(kernels, host.backward + host.boundary_backward);
  return {micro_steps * forward + (micro_steps - 1) * backward + last_backward + host.step + optimizer.gpu + optimizer.cpu};
}

}  // namespace zplan
