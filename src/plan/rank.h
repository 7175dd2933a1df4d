// From what the search found to the plan: which differences in time are real, how sure a plan is to fit, and which of
// equals to take. docs/memory-model.md#ranking
#pragma once

#include <vector>

#include "plan/search.h"
#include "step/simulation.h"

namespace zplan {

// A plan with everything a report says of it.
struct Plan {
  Candidate candidate;
  Bytes capacity;               // smallest capacity at which it completes, within 32 MiB
  Bytes headroom;               // what the device offers beyond capacity and what lies outside the allocator
  double oom_probability = 0;   // that the real run needs more than the device offers
  bool tied = false;            // with the fastest, within what the time model can tell
  bool on_front = false;        // no other plan is better in time, headroom and host memory at once
};

// Standard deviation of measured over predicted need, as a share of it. docs/validation.md#residuals
constexpr double kCapacityError = 0.010;
double oom_probability(Bytes needed, Bytes limit);

// Are the two within what the model can tell? What they share is off by the same factor in both and cannot turn them
// round; what differs is as uncertain as the model, and steps of one configuration repeat to 3 %.
bool same_time(const StepTime& a, const StepTime& b);

// The plans in the order in which they are preferred: those that fit by the margin first; of those tied with the
// fastest, the likelier to fit, then the simpler, then the one with more headroom; then by the objective.
std::vector<Plan> ranked(const Question& question, const SearchResult& result);

// The events of a plan looked at in full, for the report.
Simulation simulate_plan(const Question& question, const SearchResult& result, const Strategy& strategy);

}  // namespace zplan
