// ZeRO-1/2 with the optimizer on the host: masters, gradients and states in host memory, gradients copied out as they
// are reduced. Derived in docs/stages-0-2.md#offload12.
#include <algorithm>

#include "step/zero12.h"

namespace zplan {

// S12:__init__: the partition is cloned on the GPU and converted; the master and a staging buffer for the updated
// parameters are pinned.
void Zero12::init_offload(Group& group) {
  const auto part = group.flat.partition;
  if (sw_.flatten_on_device) recorder_.free(recorder_.allocate(width_ * part, clone_label_));
  const auto host = [&](std::int64_t bytes, bool pin) {
    recorder_.host(bytes);
    if (!pin) return;
    pinned_.allocate(bytes);   // pin_memory copies: the pageable tensor goes
    recorder_.host(-bytes);
  };
  host(4 * part, pinned() || !sw_.master_pin_follows_flag);
  if (sw_.offload_h2d_staging) host(width_ * part, pinned());
}

void Zero12::init_offload_gradients() {
  std::int64_t largest = 0;
  for (const auto& g : groups_) {
    for (const auto p : g.flat.parameters) largest = std::max(largest, numel(p));
  }
  const auto host = [&](std::int64_t bytes) {
    recorder_.host(bytes);
    if (!pinned()) return;
    pinned_.allocate(bytes);
    recorder_.host(-bytes);
  };
  host(width_ * largest);                                      // temp_grad_buffer_for_cpu_offload
  recorder_.allocate(width_ * largest, staging_label_);        // temp_grad_buffer_for_gpu_offload
  for (const auto& g : groups_) host(4 * g.flat.partition);    // fp32 gradients
}

// S12:copy_grads_in_partition with cpu_offload.
void Zero12::offload_gradient(std::int32_t p) {
  auto& group = groups_[static_cast<std::size_t>(place(p).group)];
  const bool several = run_.ds.gradient_accumulation_steps > 1;
  if (sw_.offload_accumulates_always ? several : micro_step_ > 1 || !boundary_) {
    // async_accumulate_grad_in_cpu_via_gpu: full-size accumulators on the host, through the persistent staging buffer.
    if (!std::exchange(host_accumulators_[p], true)) {
      recorder_.host(width_ * numel(p));
      if (pinned()) {
        pinned_.allocate(width_ * numel(p));
        recorder_.host(-width_ * numel(p));
      }
    }
  }
  if (boundary_) {
    for (const auto& s : group.flat.owned) {
      if (s.parameter != p) continue;
      offload_norms_[p] = checks_.double_norm(s.numel, width_, norm_label_, p, stream_);
      recorder_.free(checks_.has_inf_or_nan(numel(p), width_, stream_));
      recorder_.free(recorder_.allocate(4 * s.numel, fp32_grad_label_, p, stream_));
    }
    storages_.release(grad(p));
  }
}

// The step is on the host; DeepSpeedCPUAdam's states are made in the first one.
void Zero12::step_offload() {
  scalars_.play("overflow=1 -overflow");
  for (auto& g : groups_) {
    scalars_.play("total_norm=4 -total_norm");
    if (!std::exchange(g.states, true)) recorder_.host(8 * g.flat.partition);
    // Before 0.19: the fp32 partition comes to the GPU and is cast into the flat buffer there.
    if (!sw_.offload_h2d_staging) recorder_.free(recorder_.allocate(4 * g.flat.partition, fp32_grad_label_));
  }
  for (const auto& [p, norm] : offload_norms_) recorder_.free(norm);
  offload_norms_.clear();
}

}  // namespace zplan
