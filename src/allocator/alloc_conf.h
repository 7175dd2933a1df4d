// PYTORCH_CUDA_ALLOC_CONF / PYTORCH_ALLOC_CONF: "key:value,key:[a:b,c:d]".
// Accepted and refused as the release does it, with its own error texts. docs/allocator.md#options
#pragma once

#include <stdexcept>
#include <string>

#include "allocator/options.h"

namespace zplan {

// what() is PyTorch's text; fix() says how to mend the string.
class AllocConfError : public std::runtime_error {
 public:
  AllocConfError(const std::string& text, std::string fix)
      : runtime_error(text), fix_(std::move(fix)) {}
  const std::string& fix() const { return fix_; }

 private:
  std::string fix_;
};

// `base` is what was in force before: like PyTorch, max_split_size, roundup_power2_divisions and
// garbage_collection_threshold start from their defaults each time, everything else stays as it
// was. Throws AllocConfError. The limits and the device in `base` are kept.
AllocatorOptions parse_alloc_conf(const std::string& conf, const AllocatorRules& rules = {},
                                  const AllocatorOptions& base = {});

}  // namespace zplan
