#include "plan/oom.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "allocator/replay.h"
#include "allocator/rounding.h"
#include "step/moments.h"
#include "step/simulate.h"
#include "units/text.h"

namespace zplan {
namespace {

// Allocated bytes of a moment that is meant, as far off as the simulation may be. docs/oom.md#matching
constexpr double kSame = 0.02;

double difference(Bytes a, Bytes b) {
  return std::abs(static_cast<double>((a - b).count)) / static_cast<double>(std::max<std::int64_t>(1, b.count));
}

struct Found {
  std::size_t event = 0;
  Bytes allocated;
};

// The request for a segment of the message's size with the allocated bytes nearest to the message's. A mark before
// each such request lets the replay say what was allocated then.
std::optional<Found> nearest_request(const SimulatedHistory& history, const AllocatorOptions& options,
                                     const OomMessage& m) {
  std::vector<Event> events;
  std::vector<std::size_t> requests;
  std::vector<std::size_t> marks;  // which of the replay's phases they are
  std::size_t mark = 0;
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    const Event& e = history.events[i];
    const bool asks = e.action == Action::Allocate && e.bytes > 0 &&
                      m.tried.may_be({segment_size(round_size(e.bytes, options), options)});
    if (asks) {
      requests.push_back(i);
      marks.push_back(mark++);
      events.push_back({Action::Mark, 0, 0, 0});
    }
    if (e.action == Action::Mark) ++mark;
    events.push_back(e);
  }
  const auto replayed = replay(events, options);
  std::optional<Found> best;
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const Bytes allocated = replayed.phases[marks[k]].allocated;
    if (!best || difference(allocated, m.allocated.value) < difference(best->allocated, m.allocated.value)) {
      best = Found{requests[k], allocated};
    }
  }
  return best;
}

void likely_reasons(OomExplanation& x) {
  const OomMessage& m = x.message;
  const auto add = [&](const std::string& reason) { x.reasons.push_back(reason); };
  if (difference(m.allocated.value, x.allocated_peak) > kSame && m.allocated.value > x.allocated_peak) {
    add("the job had " + text(m.allocated.value) + " allocated, more than this configuration ever has (" +
        text(x.allocated_peak) +
        "): longer sequences, a larger micro-batch, another ds_config, or tensors kept over steps (`zplan watch` "
        "sees those grow)");
  } else {
    add("no tensor of this configuration needs " + text(m.tried.value, 2) + " when " + text(m.allocated.value, 2) +
        " are allocated: another --seq-len or --micro-batch, other kernels, evaluation or generation, or code of the "
        "job's own");
  }
  if (m.others > MiB(256)) add("other processes had " + text(m.others) + " of the GPU");
  if (m.process && *m.process - m.reserved() > x.outside + GiB(1)) {
    add(text(*m.process - m.reserved()) + " of this process lie outside PyTorch's allocator, where " +
        text(x.outside) + " are usual");
  }
}

}  // namespace

Bytes OomMessage::limit() const {
  Bytes most = free ? reserved() + *free : allowed.value_or(total.value_or(reserved()));
  return allowed ? std::min(*allowed, most) : most;
}

OomExplanation explain(const OomMessage& message, Run run) {
  OomExplanation x;
  x.message = message;
  if (message.rank && *message.rank < run.world_size) run.rank = *message.rank;
  run.capacity_limit = message.limit();
  x.run = run;
  x.outside = outside_allocator(run).total();
  const auto history = simulate_events(run);
  const auto under_limit = allocator_options(run);
  const auto limited = replay(history.events, under_limit);
  auto options = under_limit;
  options.capacity_limit.reset();
  const auto free_of_limits = replay(history.events, options);
  x.allocated_peak = free_of_limits.allocated_peak;
  x.reserved_peak = free_of_limits.reserved_peak;

  std::optional<Found> found;
  if (limited.oom) {
    const auto& oom = *limited.oom;
    const auto event = static_cast<std::size_t>(oom.event);
    x.simulated = SimulatedOom{moment_of(history, event), oom.requested, *run.capacity_limit - oom.reserved,
                               oom.allocated, oom.reserved};
    if (message.tried.may_be(oom.segment) && difference(oom.allocated, message.allocated.value) <= kSame)
      found = Found{event, oom.allocated};
  }
  const bool runs_out = found.has_value();
  if (!found) found = nearest_request(history, options, message);
  if (!found || difference(found->allocated, message.allocated.value) > kSame) {
    likely_reasons(x);
    return x;
  }
  const auto& asked = history.events[found->event];
  OomMatch match;
  match.at = moment_of(history, found->event);
  match.component = history.labels[history.blocks[static_cast<std::size_t>(asked.block)].label].component;
  match.requested = Bytes{asked.bytes};
  match.allocated = found->allocated;
  match.runs_out = runs_out;
  if (found->event > 0) match.live = components_after(history, runs_out ? under_limit : options, found->event - 1);
  x.match = match;
  x.fragmentation = message.allocated.value + message.tried.value <= message.limit();
  return x;
}

}  // namespace zplan
