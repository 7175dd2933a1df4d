#include "plan/rank.h"

#include <algorithm>
#include <cmath>

#include "allocator/capacity.h"
#include "plan/parallel.h"
#include "step/simulate.h"

namespace zplan {
namespace {

// Plans closer than this in headroom are alike in it.
constexpr Bytes kCoarse = MiB(32);

Bytes capacity_of(const Question& q, const SearchResult& result, const Candidate& c) {
  Run run = representative(applied(c.strategy, q.base));
  run.rank = result.shard.rank;
  return smallest_capacity(simulate_events(run).events, allocator_options(run), kCoarse);
}

// 0: as good as certain to fit, 1: very likely, 2: may well run out.
int risk(const Plan& p) { return p.oom_probability < 0.001 ? 0 : p.oom_probability < 0.05 ? 1 : 2; }

// What a reader has to understand and a machine has to have: settings, and twice as much for each step of offload.
int complexity(const Plan& p) { return p.candidate.departures + 2 * static_cast<int>(offload_of(p.candidate.strategy.ds.zero)); }

bool preferred_of_tied(const Plan& a, const Plan& b) {
  if (risk(a) != risk(b)) return risk(a) < risk(b);
  if (complexity(a) != complexity(b)) return complexity(a) < complexity(b);
  if (a.headroom != b.headroom) return a.headroom > b.headroom;
  return a.candidate.time.total() < b.candidate.time.total();
}

void mark_front(std::vector<Plan>& plans) {
  for (auto& p : plans) {
    p.on_front = std::none_of(plans.begin(), plans.end(), [&](const Plan& o) {
      const bool no_worse = o.candidate.time.total() <= p.candidate.time.total() && o.headroom >= p.headroom &&
                            o.candidate.host.total() <= p.candidate.host.total();
      const bool better = o.candidate.time.total() < p.candidate.time.total() || o.headroom > p.headroom ||
                          o.candidate.host.total() < p.candidate.host.total();
      return no_worse && better;
    });
  }
}

}  // namespace

double oom_probability(Bytes needed, Bytes limit) {
  const double sigma = kCapacityError * static_cast<double>(needed.count);
  const double spare = static_cast<double>((limit - needed).count);
  return 0.5 * std::erfc(spare / sigma / std::sqrt(2.0));
}

bool same_time(const StepTime& a, const StepTime& b) {
  constexpr double repeat = 0.03;
  double apart = 0;
  for (std::size_t i = 0; i < time_parts; ++i) apart += std::abs(a.parts[i] - b.parts[i]);
  const double faster = std::min(a.total().count, b.total().count);
  const double difference = std::abs(a.total().count - b.total().count);
  return difference <= std::hypot(repeat * faster, std::max(a.relative_error, b.relative_error) * (apart - difference) / 2);
}

std::vector<Plan> ranked(const Question& q, const SearchResult& result) {
  std::vector<Plan> plans(result.found.size());
  in_parallel(plans.size(), q.threads, [&](std::size_t i) {
    auto& p = plans[i];
    p.candidate = result.found[i];
    p.capacity = capacity_of(q, result, p.candidate);
    p.headroom = result.budget.limit() - p.capacity;
    p.oom_probability = oom_probability(p.capacity, result.budget.limit());
  });
  const auto safe_end = std::stable_partition(plans.begin(), plans.end(), [](const Plan& p) { return p.candidate.safe; });
  const auto by_time = [](const Plan& a, const Plan& b) { return a.candidate.time.total() < b.candidate.time.total(); };
  std::stable_sort(plans.begin(), safe_end, by_time);
  std::stable_sort(safe_end, plans.end(), by_time);
  if (plans.empty()) return plans;
  switch (q.objective) {
    case Objective::Time: {
      const auto end = safe_end == plans.begin() ? plans.end() : safe_end;
      const StepTime fastest = plans.front().candidate.time;
      const auto tied_end = std::stable_partition(plans.begin(), end, [&](const Plan& p) { return same_time(fastest, p.candidate.time); });
      for (auto p = plans.begin(); p != tied_end; ++p) p->tied = true;
      std::stable_sort(plans.begin(), tied_end, preferred_of_tied);
      break;
    }
    case Objective::Memory:
      std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) { return a.capacity < b.capacity; });
      break;
    case Objective::Headroom: {  // the most of it among plans that cost at most a tenth of the speed
      const double slowest = 1.1 * plans.front().candidate.time.total().count;
      const auto end = std::stable_partition(plans.begin(), plans.end(), [&](const Plan& p) { return p.candidate.time.total().count <= slowest; });
      std::stable_sort(plans.begin(), end, [](const Plan& a, const Plan& b) { return a.headroom > b.headroom; });
      break;
    }
  }
  mark_front(plans);
  return plans;
}

Simulation simulate_plan(const Question& q, const SearchResult& result, const Strategy& strategy) {
  Run run = representative(applied(strategy, q.base));
  run.rank = result.shard.rank;
  return simulate(run, Detail::Full);
}

}  // namespace zplan
