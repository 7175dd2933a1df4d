#include "plan/search.h"

#include <algorithm>

#include "plan/family.h"
#include "plan/parallel.h"

namespace zplan {
namespace {

// Plans within this of the fastest are kept: the ranking may prefer one of them.
constexpr double kTie = 1.05;
// Families tried before the cut is drawn again. Fixed, so that the result does not depend on the number of threads.
constexpr std::size_t kRound = 6;

bool better(const Candidate& a, const Candidate& b) {
  if (a.safe != b.safe) return a.safe;
  return a.time.total() < b.time.total();
}

class Search {
 public:
  Search(const Question& q, const Progress& progress) : q_(q), progress_(progress) {}

  SearchResult run() {
    result_.shard = worst_shard(q_.base.model, q_.base.workload, q_.base.world_size);
    result_.budget = budget(q_.base);
    families_ = families(q_, result_.shard);
    sort_out();
    if (q_.objective == Objective::Time) {
      fastest_first();
    } else {
      all_of_them();
    }
    one_of_each_group();
    std::sort(result_.found.begin(), result_.found.end(), [](const Candidate& a, const Candidate& b) {
      if (a.time.total() != b.time.total()) return a.time.total() < b.time.total();
      return a.departures < b.departures;
    });
    return std::move(result_);
  }

 private:
  Group& group_of(const Family& f) {
    const auto stage = f.strategy.ds.zero.stage;
    const auto offload = offload_of(f.strategy.ds.zero);
    for (auto& g : result_.groups) {
      if (g.stage == stage && g.offload == offload) return g;
    }
    result_.groups.push_back({});
    result_.groups.back().stage = stage;
    result_.groups.back().offload = offload;
    return result_.groups.back();
  }

  // Families that no knob can save go first.
  void sort_out() {
    const auto& node = q_.cluster.node;
    const auto host_limit = q_.max_host_ram ? q_.max_host_ram : node.host_memory;
    for (auto& f : families_) {
      auto& group = group_of(f);
      group.strategies += f.size;
      result_.counts.strategies += f.size;
      ++result_.counts.families;
      if (f.least_memory.peak() > result_.budget.limit()) {
        result_.counts.discarded_by_bound += f.size;
        if (!group.best && (!group.nearest || f.least_memory.peak() < group.nearest->bound.peak())) {
          group.nearest = unsimulated(f);
        }
        continue;
      }
      const Bytes host = node.gpus * f.host.total();
      if (host_limit && host > *host_limit) {
        result_.counts.discarded_by_host += f.size;
        if (group.host_short.count == 0 || host - *host_limit < group.host_short) group.host_short = host - *host_limit;
        continue;
      }
      open_.push_back(&f);
    }
    std::stable_sort(open_.begin(), open_.end(), [](const Family* a, const Family* b) { return a->least_time < b->least_time; });
    tried_.assign(open_.size(), false);
  }

  Candidate unsimulated(const Family& f) const {
    Candidate c;
    c.strategy = f.strategy;
    KnobGrid(q_.axes, c.strategy.ds.zero.stage).set_frugal(c.strategy);
    c.bound = f.least_memory;
    c.host = f.host;
    Run run = q_.base;
    apply(c.strategy, run);
    c.time = predict_step_time(run, q_.cluster, q_.coefficients);
    c.departures = departure_count(c.strategy);
    return c;
  }

  void fastest_first() {
    for (std::size_t at = 0; at < open_.size();) {
      const Seconds cut = cut_off();
      std::vector<std::size_t> round;
      for (; at < open_.size() && round.size() < kRound; ++at) {
        if (open_[at]->least_time > cut) {
          at = open_.size();
          break;
        }
        round.push_back(at);
      }
      if (round.empty()) break;
      try_round(round, cut);
    }
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!tried_[i]) result_.counts.discarded_by_time += open_[i]->size;
    }
  }

  void all_of_them() {
    std::vector<std::size_t> every(open_.size());
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = i;
    try_round(every, {1e300});
  }

  // Groups that the cut left untried: their fastest family that fits, so that the report can say what they would do.
  void one_of_each_group() {
    constexpr int kMostTried = 6, kByTime = 2;
    std::vector<Group*> waiting;
    for (auto& g : result_.groups) {
      if (!g.best) waiting.push_back(&g);
    }
    for (int turn = 0; turn < kMostTried; ++turn) {
      std::vector<std::size_t> round;
      for (auto* g : waiting) {
        if (g->best) continue;
        // The fastest first; then those with the least memory.
        std::size_t choice = open_.size();
        for (std::size_t i = 0; i < open_.size(); ++i) {
          if (tried_[i] || &group_of(*open_[i]) != g) continue;
          const bool less = choice < open_.size() && open_[i]->least_memory.peak() < open_[choice]->least_memory.peak();
          if (choice == open_.size() || (turn >= kByTime && less)) choice = i;
        }
        if (choice < open_.size()) round.push_back(choice);
      }
      if (round.empty()) return;
      try_round(round, {1e300});
    }
  }

  Seconds cut_off() const {
    double best = 1e300;
    for (const auto& c : result_.found) {
      if (c.safe) best = std::min(best, c.time.total().count);
    }
    return {best * kTie};
  }

  void try_round(const std::vector<std::size_t>& round, Seconds slowest) {
    std::vector<FamilyResult> results(round.size());
    in_parallel(round.size(), q_.threads, [&](std::size_t i) {
      results[i] = try_family(q_, result_.shard, result_.budget, *open_[round[i]], slowest);
    });
    for (std::size_t i = 0; i < round.size(); ++i) {
      const auto& r = results[i];
      tried_[round[i]] = true;
      auto& group = group_of(*open_[round[i]]);
      auto& counts = result_.counts;
      ++counts.families_tried;
      counts.discarded_by_bound += r.discarded_by_bound;
      counts.discarded_by_time += r.discarded_by_time;
      counts.simulated += r.simulated;
      if (!r.cannot_run.empty()) group.cannot_run = r.cannot_run;
      if (r.best) {
        result_.found.push_back(*r.best);
        if (!group.best || better(*r.best, *group.best)) group.best = r.best;
      }
      if (r.nearest && (!group.nearest || group.nearest->memory.allocated.count == 0 ||
                        r.nearest->memory.allocated < group.nearest->memory.allocated)) {
        group.nearest = r.nearest;
      }
    }
    if (progress_) progress_(result_.counts);
  }

  const Question& q_;
  const Progress& progress_;
  SearchResult result_;
  std::vector<Family> families_;
  std::vector<const Family*> open_;
  std::vector<bool> tried_;
};

}  // namespace

Budget budget(const Run& run) {
  Budget b;
  b.device = run.gpu.memory_total;
  b.outside = outside_allocator(run).total();
  return b;
}

SearchResult search(const Question& question, const Progress& progress) { return Search(question, progress).run(); }

}  // namespace zplan
