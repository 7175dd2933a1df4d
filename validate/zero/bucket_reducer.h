// The gradient buckets of stages 1 and 2 (S12:reduce_independent_p_g_buckets_and_remove_grads,
// average_tensor). A gradient is copied into the bucket and its own storage freed; a full bucket is
// all-reduced, and what this rank owns of it is handed on, always the whole gradient of a parameter
// even if only part of it is owned.
#pragma once

#include <functional>

#include "device.h"
#include "zero/engine.h"
#include "zero/flat_layout.h"

namespace zplan::trainer {

class BucketReducer {
 public:
  // Called on the reduction lane for each owned parameter, whose value.grad() holds the average.
  using Owned = std::function<void(std::size_t parameter)>;

  BucketReducer(const EngineSetup& setup, const ParameterList& parameters, const FlatLayout& layout,
                Owned owned);

  // Both buckets at once, at the first gradient of an accumulation that has none
  // (S12:setup_buckets).
  void allocate();
  void add(std::size_t parameter);  // its gradient of this backward is complete
  void flush();
  // End of a backward that reduced: the rest of the bucket, a synchronisation with overlap, buffers
  // freed.
  void finish();

 private:
  void average(const at::Tensor& gradients, std::int64_t elements);

  const EngineSetup& setup_;
  const ParameterList& parameters_;
  const FlatLayout& layout_;
  Owned owned_;
  std::int64_t limit_;
  bool overlap_;
  Lane reduction_;
  at::Tensor buffers_[2];
  int current_ = 0;
  std::int64_t filled_ = 0;
  std::vector<std::size_t> pending_;
};

}  // namespace zplan::trainer
