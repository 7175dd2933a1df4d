#include "allocator/out_of_memory.h"

#include <cstdio>

namespace zplan {
namespace {

// c10::CachingAllocator::format_size: binary units, two decimals above 1 KiB.
std::string format_size(Bytes bytes) {
  char text[64];
  const auto n = static_cast<double>(bytes.count);
  if (bytes.count <= 1024) {
    std::snprintf(text, sizeof text, "%lld bytes", static_cast<long long>(bytes.count));
  } else if (bytes.count <= 1048576) {
    std::snprintf(text, sizeof text, "%.2f KiB", n / 1024);
  } else if (bytes.count <= 1073741824) {
    std::snprintf(text, sizeof text, "%.2f MiB", n / 1048576);
  } else {
    std::snprintf(text, sizeof text, "%.2f GiB", n / 1073741824);
  }
  return text;
}

}  // namespace

std::string message(const OutOfMemory& oom, const AllocatorRules& rules, int device) {
  std::string out = "CUDA out of memory. Tried to allocate ";
  if (oom.too_large) return out + "more than 1EB memory.";
  out += format_size(oom.segment) + ". GPU " + std::to_string(device);
  if (oom.device_total) out += " has a total capacity of " + format_size(*oom.device_total);
  if (oom.device_free) out += " of which " + format_size(*oom.device_free) + " is free";
  out += ". ";
  if (oom.allowed && rules.allowed_bytes_in_message)
    out += format_size(*oom.allowed) + " allowed; ";
  out += "Of the allocated memory " + format_size(oom.allocated) +
         " is allocated by PyTorch, and " + format_size(oom.unallocated()) +
         " is reserved by PyTorch but unallocated.";
  if (!rules.expandable_hint_in_message)
    return out +
           " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
           "fragmentation.";
  out += " If reserved but unallocated memory is large try setting ";
  out += rules.alloc_conf_without_cuda ? "PYTORCH_ALLOC_CONF=" : "PYTORCH_CUDA_ALLOC_CONF=";
  out +=
      "expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
      "(";
  out += rules.docs_pytorch_org_in_message
             ? "https://docs.pytorch.org/docs/stable/notes/"
               "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"
             : "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables";
  return out + ")";
}

}  // namespace zplan
