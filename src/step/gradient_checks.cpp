#include "step/gradient_checks.h"

#include <limits>

#include "step/engine.h"
#include "units/units.h"

namespace zplan {

BlockId GradientChecks::reduce(std::int64_t n, std::int64_t width, StreamId stream) {
  const auto result = scalar(width, stream);
  reduce_into(n, width, stream);
  return result;
}

// Operands beyond 32-bit offsets are halved (TensorIterator::with_32bit_indexing): one reduction after the other.
void GradientChecks::reduce_into(std::int64_t n, std::int64_t width, StreamId stream) {
  if (n * width > std::numeric_limits<std::int32_t>::max()) {
    reduce_into(n / 2, width, stream);
    reduce_into(n - n / 2, width, stream);
    return;
  }
  const auto blocks = reduction_blocks(n, sm_count_);
  if (blocks <= 1) return;
  const auto partial = scalar(width * blocks, stream), semaphore = scalar(4, stream);
  free(semaphore);
  free(partial);
}

// torch.isfinite: (x == x) * (abs(x) != inf).
BlockId GradientChecks::isfinite(std::int64_t k, std::int64_t width, StreamId stream) {
  const auto abs = scalar(k * width, stream), is_number = scalar(k, stream), not_inf = scalar(k, stream);
  const auto finite = scalar(k, stream);
  free(not_inf);
  free(is_number);
  free(abs);
  return finite;
}

BlockId GradientChecks::has_inf_or_nan(std::int64_t n, std::int64_t width, StreamId stream) {
  if (!switches_.overflow_check_scalar) {
    // x.float(), isnan, isinf (abs(x) == inf), logical_or, float: 11 bytes an element.
    const auto whole = [&](std::int64_t bytes) { return recorder_.allocate(n * bytes, check_, -1, stream); };
    const auto as_float = width == 4 ? -1 : whole(4);
    const auto nan = whole(1), abs = whole(4), inf = whole(1);
    free(abs);
    const auto either = whole(1), flags = whole(4);
    const auto result = reduce(n, 4, stream);
    free(flags);
    for (const auto b : {either, inf, nan, as_float}) {
      if (b >= 0) free(b);
    }
    return result;
  }
  const auto max = reduce(n, width, stream), max_finite = isfinite(1, width, stream);
  free(max);
  const auto min = reduce(n, width, stream), min_finite = isfinite(1, width, stream);
  free(min);
  const auto both = scalar(1, stream);
  free(max_finite);
  free(min_finite);
  const auto flag = scalar(1, stream);
  free(both);
  return flag;
}

BlockId GradientChecks::double_norm(std::int64_t n, std::int64_t, std::uint16_t label, std::int64_t index, StreamId stream) {
  const auto whole = recorder_.allocate(8 * n, label, index, stream);
  const auto norm = reduce(n, 8, stream);
  free(whole);
  return norm;
}

BlockId GradientChecks::group_norm(std::vector<BlockId> norms) {
  BlockId squared_sum;
  if (norms.empty()) {
    squared_sum = scalar(4);  // torch.tensor(0.0).to(device)
  } else {
    const auto k = static_cast<std::int64_t>(norms.size());
    const auto stack = scalar(8 * k), squares = scalar(8 * k);
    free(stack);
    const auto sum = scalar(8);
    free(squares);
    squared_sum = scalar(4);
    free(sum);
  }
  const auto norm = scalar(4);
  free(squared_sum);
  mask_nan_or_inf();
  for (auto it = norms.rbegin(); it != norms.rend(); ++it) free(*it);  // the list goes when the function returns
  return norm;
}

void GradientChecks::mask_nan_or_inf() {
  const auto abs = scalar(4), inf = scalar(1);
  free(abs);
  const auto nan = scalar(1), either = scalar(1), minus_one = scalar(4);
  for (const auto b : {inf, nan, either, minus_one}) free(b);
}

BlockId GradientChecks::combined_norm(const std::vector<BlockId>& groups) {
  const auto k = static_cast<std::int64_t>(groups.size());
  const auto stack = scalar(4 * k);
  BlockId result;
  if (!switches_.norm_before_scale_update) {
    result = scalar(4);
    free(stack);
  } else {
    const auto finite = isfinite(k, 4, kCompute), invalid = scalar(k);
    free(finite);
    const auto negative = scalar(k), either = scalar(k);
    free(invalid);
    free(negative);
    const auto any = scalar(1);
    free(either);
    const auto norm = scalar(4), minus_one = scalar(4);
    result = scalar(4);  // torch.where
    free(minus_one);
    free(stack);
    free(any);
    free(norm);
  }
  for (const auto g : groups) free(g);
  return result;
}

void GradientChecks::is_invalid_grad_norm(std::int64_t k) {
  const auto finite = isfinite(k, 4, kCompute), invalid = scalar(k);
  free(finite);
  const auto negative = scalar(k), either = scalar(k);
  free(invalid);
  free(negative);
  const auto any = scalar(1);
  free(either);
  free(any);
}

void GradientChecks::clip_factor() {
  if (switches_.norm_before_scale_update) is_invalid_grad_norm();
  const auto unscaled = scalar(4), shifted = scalar(4);
  free(unscaled);
  const auto clip = scalar(4);
  free(shifted);
  const auto clamped = scalar(4);
  free(clip);
  const auto combined = scalar(4), reciprocal = scalar(4), factor = scalar(4);
  for (const auto b : {reciprocal, factor, combined, clamped}) free(b);
}

}  // namespace zplan
