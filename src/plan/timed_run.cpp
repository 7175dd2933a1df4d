#include "plan/timed_run.h"

#include <algorithm>

namespace zplan {
namespace {

constexpr std::int64_t first_steady_step = 2;

bool has_seconds(const Record& r) {
  return !r.loop_step_seconds.empty() || std::any_of(r.phases.begin(), r.phases.end(),
                                                     [](const MeasuredPhase& p) { return p.step >= 0 && p.seconds; });
}

// Why the seconds of a record are not those of a DeepSpeed job; empty if they are.
std::string not_usable(const Record& r) {
  if (r.outcome != Record::Outcome::Ok) return "ran out of memory";
  if (!r.machine) return "does not say on what machine it ran (\"machine\")";
  if (!r.measured_by.empty())
    return "was measured by " + r.measured_by + ", whose host is no Python process: only its memory counts";
  if (r.ranks == Record::Ranks::Fake && r.run.world_size > 1)
    return "has a stand-in for the other ranks: nothing was sent";
  return "";
}

void set_positive(std::optional<double>& to, Seconds s) {
  if (s.count > 0) to = s.count;
}

TimedRun read(const Record& r) {
  TimedRun t;
  t.id = r.id;
  t.run = r.run;
  t.run.rank = 0;
  t.cluster = *r.machine;
  for (const MeasuredPhase& p : r.phases) {
    if (p.step < first_steady_step || !p.seconds) continue;
    if (p.phase == "forward") set_positive(t.forward_s, *p.seconds);
    if (p.phase == "backward") set_positive(t.backward_s, *p.seconds);
    if (p.phase == "step") set_positive(t.step_s, *p.seconds);
  }
  if (const auto s = whole_step(r)) set_positive(t.loop_s, *s);
  return t;
}

// Another rank's seconds of the same run. Phases of a rank end when it is through, not when all are: their mean says
// what a rank takes.
void join(TimedRun& run, const TimedRun& other) {
  const auto mean = [&](std::optional<double>& a, const std::optional<double>& b) {
    if (a && b)
      a = (*a * run.ranks + *b) / (run.ranks + 1);
    else if (b)
      a = b;
  };
  mean(run.forward_s, other.forward_s);
  mean(run.backward_s, other.backward_s);
  mean(run.step_s, other.step_s);
  mean(run.loop_s, other.loop_s);
  ++run.ranks;
}

}  // namespace

std::optional<Seconds> whole_step(const Record& record) {
  std::vector<Seconds> steps = record.loop_step_seconds;
  if (steps.empty()) return std::nullopt;
  if (steps.size() > 1) steps.erase(steps.begin());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), middle, steps.end(), [](Seconds a, Seconds b) { return a.count < b.count; });
  return *middle;
}

TimedRuns timed_runs(const std::vector<Record>& records) {
  TimedRuns all;
  std::vector<std::vector<std::int64_t>> ranks;  // of each run, those seen
  for (const Record& r : records) {
    if (!has_seconds(r)) continue;
    if (const std::string why = not_usable(r); !why.empty()) {
      all.left_out.push_back(
          {Note::Level::Info, "seconds-not-used", "The seconds of " + r.id + " are not used: it " + why + ".", ""});
      continue;
    }
    const TimedRun t = read(r);
    if (!t.forward_s && !t.backward_s && !t.step_s && !t.loop_s) {
      all.left_out.push_back({Note::Level::Info, "seconds-not-used",
                              "The seconds of " + r.id + " are not used: it ended before the third step.",
                              "measure 3 steps or more"});
      continue;
    }
    // A rank seen twice is a repetition: a run of its own.
    std::size_t same = 0;
    for (; same < all.runs.size(); ++same) {
      const TimedRun& known = all.runs[same];
      const bool seen = std::find(ranks[same].begin(), ranks[same].end(), r.run.rank) != ranks[same].end();
      if (!seen && known.id == t.id && known.run == t.run && known.cluster == t.cluster) break;
    }
    if (same < all.runs.size()) {
      join(all.runs[same], t);
    } else {
      all.runs.push_back(t);
      ranks.emplace_back();
    }
    ranks[same].push_back(r.run.rank);
  }
  return all;
}

}  // namespace zplan
