#include "step/moments.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"

namespace zplan {
namespace {

std::string text(const SimulatedHistory& history, BlockId block) {
  const auto& info = history.blocks[static_cast<std::size_t>(block)];
  std::string out = history.labels[info.label].text;
  if (info.index >= 0) out += " " + std::to_string(info.index);
  return out;
}

}  // namespace

Moment moment_of(const SimulatedHistory& history, std::size_t event) {
  Moment m;
  for (const auto& mark : history.phases) {
    m.step = mark.step;
    m.micro_step = mark.micro_step;
    m.phase = mark.phase;
    if (event < mark.end) break;
  }
  m.event = text(history, history.events[event].block);
  return m;
}

std::array<Bytes, kComponents> components_after(const SimulatedHistory& history, const AllocatorOptions& options,
                                                std::size_t event) {
  CachingAllocator allocator(options);
  std::vector<BlockIndex> block(history.blocks.size(), kNoBlock);
  std::array<Bytes, kComponents> sums{};
  // A synchronisation under a limit completes every pending free: what the history says of them later is void.
  std::vector<BlockId> pending;
  std::int64_t synchronisations = allocator.statistics().num_sync_all_streams;
  const auto drop_pending = [&] {
    const auto now = allocator.statistics().num_sync_all_streams;
    if (std::exchange(synchronisations, now) == now) return;
    for (const BlockId id : pending) block[static_cast<std::size_t>(id)] = kNoBlock;
    pending.clear();
  };
  const auto add = [&](BlockId id, std::int64_t sign) {
    const auto component = history.labels[history.blocks[static_cast<std::size_t>(id)].label].component;
    sums[static_cast<std::size_t>(component)] += Bytes{sign * allocator.block(block[static_cast<std::size_t>(id)]).size};
  };
  for (std::size_t i = 0; i <= event; ++i) {
    const auto& e = history.events[i];
    auto& b = block[static_cast<std::size_t>(e.block)];
    switch (e.action) {
      case Action::Allocate:
        b = allocator.allocate(e.bytes, e.stream);
        drop_pending();
        add(e.block, 1);
        break;
      case Action::Free:
        add(e.block, -1);
        allocator.free(b);
        break;
      case Action::FreeRequested:
        add(e.block, -1);
        allocator.free_requested(b);
        pending.push_back(e.block);
        break;
      case Action::FreeCompleted:
        if (b == kNoBlock) break;
        allocator.free_completed(b);
        pending.erase(std::find(pending.begin(), pending.end(), e.block));
        b = kNoBlock;
        break;
      case Action::EmptyCache:
        allocator.empty_cache();
        drop_pending();
        break;
      case Action::Mark: break;
    }
  }
  return sums;
}

}  // namespace zplan
