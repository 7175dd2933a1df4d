// Names and sentences for a step time: what limits it, and how sure it is.
#include <cmath>
#include <cstdio>

#include "time/step_time.h"

namespace zplan {
namespace {

std::string compute_advice(const StepTime& t, const Run& run) {
  if (run.workload.recompute.any() && t.part(TimePart::Recompute).count > 0.1 * t.total().count) {
    return "compute-bound: recompute fewer layers if memory allows";
  }
  return "compute-bound: the GPU's kernels decide";
}

std::string host_advice(const Run& run) {
  if (run.ds.zero.stage == 3) return "host-bound: raise the micro-batch or use stage 2";
  return "host-bound: raise the micro-batch or use fused kernels";
}

std::string communication_advice(const Run& run) {
  if (run.ds.zero.stage == 2 && run.ds.gradient_accumulation_steps > 1) {
    return "communication-bound: stage 2 reduces in every micro-step; use stage 1 or a larger micro-batch";
  }
  return "communication-bound: raise the micro-batch or the accumulation";
}

std::string_view uncertainty_reason(TimePart part) {
  switch (part) {
    case TimePart::Matmul: return "the rate of matrix products at these shapes";
    case TimePart::Attention: return "the rate of the attention kernel";
    case TimePart::ElementWise: return "the memory rate of small kernels";
    case TimePart::Recompute: return "the rate of the recomputed kernels";
    case TimePart::Optimizer: return "the memory rate of the optimizer step";
    case TimePart::Host: return "the host's time differs between machines; a calibration run measures it";
    case TimePart::Communication: return "how much of the communication hides behind the kernels";
    case TimePart::Copies: return "the rate of copies to and from the host";
    case TimePart::CpuOptimizer: return "the rate of CPU Adam differs between hosts; a calibration run measures it";
    case TimePart::Nvme: return "the rate of the disks";
  }
  return "";
}

}  // namespace

std::string_view name(TimePart part) {
  switch (part) {
    case TimePart::Matmul: return "matmul";
    case TimePart::Attention: return "attention";
    case TimePart::ElementWise: return "element_wise";
    case TimePart::Recompute: return "recompute";
    case TimePart::Optimizer: return "optimizer";
    case TimePart::Host: return "host";
    case TimePart::Communication: return "communication";
    case TimePart::Copies: return "copies";
    case TimePart::CpuOptimizer: return "cpu_optimizer";
    case TimePart::Nvme: return "nvme";
  }
  return "";
}

std::string limiter_text(const StepTime& t, const Run& run) {
  switch (t.limiter) {
    case Limiter::Compute: return compute_advice(t, run);
    case Limiter::Host: return host_advice(run);
    case Limiter::Communication: return communication_advice(run);
    case Limiter::Copies: return "copy-bound: raise the micro-batch or keep parameters on the GPU";
    case Limiter::CpuOptimizer:
      return "optimizer-bound: CPU Adam runs alone; raise the accumulation or keep the optimizer on the GPU";
    case Limiter::Nvme: return "disk-bound: optimizer states pass through NVMe in every step";
  }
  return "";
}

std::string uncertainty_text(const StepTime& t) {
  char percent[32];
  std::snprintf(percent, sizeof percent, "±%.0f %%: ", 100 * t.relative_error);
  return percent + std::string(uncertainty_reason(t.least_certain));
}

std::optional<Note> host_note(const StepTime& t, const TimeCoefficients& c) {
  if (t.limiter != Limiter::Host || c != TimeCoefficients{}) return std::nullopt;
  return Note{Note::Level::Info, "host-decides",
              "The host decides this step's time, and hosts differ: the same runs of stage 3 took up to 1.7 times as long on one "
              "machine as on another of its kind.",
              "run zplan validate on yours, then zplan calibrate on what it measured"};
}

}  // namespace zplan
