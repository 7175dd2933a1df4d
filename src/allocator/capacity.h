// The least limit on reserved bytes under which a history completes.
#pragma once

#include <span>

#include "allocator/history.h"
#include "allocator/options.h"

namespace zplan {

// Bisects over replays between the allocated peak and the reserved peak of an unlimited replay, to
// `resolution` (segments are multiples of 2 MiB, so that is exact). The device's own size in
// `options` is set aside; retries, collection and flushes happen as under a real limit. A history
// near its limit need not complete under every larger limit: the result completes, and the limit
// one step below does not.
Bytes smallest_capacity(std::span<const Event> events, const AllocatorOptions& options,
                        Bytes resolution = MiB(2));

}  // namespace zplan
