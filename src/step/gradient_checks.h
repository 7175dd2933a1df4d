// The small tensors of an engine's step: overflow tests, norms and clipping factors. Few bytes, many events: they
// share the small pool with what the model keeps, so they are written down one by one.
// Derived in docs/stages-0-2.md#gradient-checks.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/versions.h"
#include "step/recorder.h"

namespace zplan {

class GradientChecks {
 public:
  GradientChecks(Recorder& recorder, std::uint16_t scalar_label, std::uint16_t check_label, std::int64_t sm_count,
                 const DeepSpeedSwitches& switches)
      : recorder_(recorder), scalar_(scalar_label), check_(check_label), sm_count_(sm_count), switches_(switches) {}

  // RU:has_inf_or_nan of n elements of `width` bytes. Returns the flag, live.
  BlockId has_inf_or_nan(std::int64_t n, std::int64_t width, StreamId stream = kCompute);
  // torch.linalg.vector_norm(g.to(double)): 8*n bytes for a moment; returns the norm, live.
  BlockId double_norm(std::int64_t n, std::int64_t width, std::uint16_t label, std::int64_t index = -1, StreamId stream = kCompute);
  // S12:get_grad_norm_direct from the norms of its slices, which it frees. Returns the group's norm, live.
  BlockId group_norm(std::vector<BlockId> norms);
  // The norm over the groups (RU:combine_grad_norm_groups; before 0.19.8 a norm of the stacked norms). Frees `groups`.
  BlockId combined_norm(const std::vector<BlockId>& groups);
  // RU:mask_nan_or_inf_with_val_inplace of a norm.
  void mask_nan_or_inf();
  // RU:is_invalid_grad_norm of k norms.
  void is_invalid_grad_norm(std::int64_t k = 1);
  // The factor of unscale_and_clip_grads: ((norm / scale) + 1e-6) / clip_grad, clamped, and its reciprocal.
  void clip_factor();

  // One value of `width` bytes from n (a reduction over everything): partial results of the blocks and a semaphore.
  BlockId reduce(std::int64_t n, std::int64_t width, StreamId stream = kCompute);
  BlockId scalar(std::int64_t bytes, StreamId stream = kCompute) { return recorder_.allocate(bytes, scalar_, -1, stream); }

 private:
  void reduce_into(std::int64_t n, std::int64_t width, StreamId stream);
  BlockId isfinite(std::int64_t k, std::int64_t width, StreamId stream);
  void free(BlockId block) { recorder_.free(block); }

  Recorder& recorder_;
  std::uint16_t scalar_, check_;
  std::int64_t sm_count_;
  const DeepSpeedSwitches& switches_;
};

}  // namespace zplan
