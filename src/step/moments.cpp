#include "step/moments.h"

#include <string>

#include "step/live_components.h"

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
  LiveComponents after{};
  walk_live(history, options, event, [&](std::size_t i, const LiveComponents& live) {
    if (i == event) after = live;
  });
  return after;
}

}  // namespace zplan
