// PYTORCH_CUDA_ALLOC_CONF strings, good and bad, read by torch and by us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "torch_side.h"

namespace zplan {

struct ConfComparison {
  std::size_t compared = 0;
  std::string difference;  // empty: every text and every value agreed
};
ConfComparison compare_conf_strings(TorchAllocator& torch, const AllocatorRules& rules,
                                    std::uint64_t seed, std::size_t count);

}  // namespace zplan
