#include "plan/host_need.h"

#include <algorithm>

#include "step/pinned_host.h"
#include "step/process_memory.h"

namespace zplan {
namespace {

// A real rank's process, once the first step is done.
const Bytes kProcess = process_memory(Phase::Step, 1, true);

// What a buffer takes; torch's pinned allocator rounds up and gives nothing back (CachingHostAllocator.h).
std::int64_t kept(std::int64_t bytes, bool pinned) {
  if (bytes <= 0) return 0;
  return pinned ? PinnedHost::rounded(bytes) : bytes;
}

// Sub-groups of a partition: whole ones and a remainder. A real one ends with a whole tensor and is a little larger.
std::int64_t kept_in_groups(std::int64_t bytes_an_element, std::int64_t elements, std::int64_t group, bool pinned) {
  if (group <= 0) return 0;
  return elements / group * kept(bytes_an_element * group, pinned) + kept(bytes_an_element * (elements % group), pinned);
}

}  // namespace

HostNeed host_need(const Shard& s, const Workload& w, const DsConfig& ds, std::optional<Bytes> process) {
  const auto lp = width(ds.precision).count, accumulation = width(ds.accumulation_dtype()).count;
  const auto& z = ds.zero;
  HostNeed need;
  need.process = process.value_or(kProcess);
  if (z.stage < 3) {
    if (w.load == Load::Cpu) need.transient = {lp * s.elements};
    if (z.stage == 0 || z.offload_optimizer.device == OffloadDevice::None) return need;
    // stage_1_and_2.py:__init__: fp32 master, fp32 gradients, staging of updated parameters, a gradient buffer.
    const bool pin = z.offload_optimizer.pin_memory;
    const std::int64_t fixed = 2 * kept(4 * s.flat_part, pin) + kept(lp * s.flat_part, pin) + kept(lp * s.largest, pin);
    const std::int64_t accumulated = ds.gradient_accumulation_steps > 1 ? lp * s.touched : 0;
    (pin ? need.pinned : need.pageable) = {fixed + accumulated};
    need.pageable += Bytes{8 * s.flat_part};
    need.transient = {std::max<std::int64_t>(0, need.transient.count - fixed)};
    return need;
  }
  need.transient = {lp * s.part};  // defragmentation moves the partitions through the host (runtime/utils.py:defragment)
  const auto group = std::min(z.sub_group_size, s.part);
  if (z.offload_optimizer.device == OffloadDevice::Cpu) {
    const bool pin = z.offload_optimizer.pin_memory;
    const std::int64_t gradients = kept_in_groups(4, s.part, group, pin) + kept(accumulation * s.part, pin);
    (pin ? need.pinned : need.pageable) = {gradients};
    need.pageable += Bytes{12 * s.part};
    need.transient = {std::max(need.transient.count, lp * group)};
  } else if (z.offload_optimizer.device == OffloadDevice::Nvme) {
    need.pinned = {z.offload_optimizer.buffer_count * 4 * group + kept(accumulation * s.part, z.offload_optimizer.pin_memory)};
  }
  if (z.offload_param.device == OffloadDevice::Cpu) {
    need.pinned += Bytes{kept(lp * (s.part + s.frozen_part), true)};  // always pinned
  } else if (z.offload_param.device == OffloadDevice::Nvme) {
    need.pinned += Bytes{lp * (z.offload_param.buffer_count * z.offload_param.buffer_size +
                               std::min(z.offload_param.max_in_cpu, s.part + s.frozen_part))};
  }
  return need;
}

Bytes nvme_need(const Shard& s, const DsConfig& ds) {
  std::int64_t bytes = 0;
  if (ds.zero.offload_optimizer.device == OffloadDevice::Nvme) bytes += 16 * s.part;
  if (ds.zero.offload_param.device == OffloadDevice::Nvme) bytes += width(ds.precision).count * (s.part + s.frozen_part);
  return {bytes};
}

}  // namespace zplan
