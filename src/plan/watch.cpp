#include "plan/watch.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "plan/margin.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr std::int64_t kEveryGpu = -1;  // of a warning that is about no single GPU
constexpr double kWarmUpSteps = 3;      // the steady state is reached at the second or third step
constexpr double kWindowSteps = 2;
constexpr double kAssumedStep = 10;  // seconds, where the prediction has no time
// A GPU on which nothing runs has less than this in use (the driver's own), one with a job's context more.
constexpr Bytes kIdle = MiB(1024);

Seconds step_of(const Prediction& p) { return Seconds{p.step.count > 0 ? p.step.count : kAssumedStep}; }

// Long enough for every window to see a whole step, and for ten samples.
Seconds window_of(const Prediction& p, const WatchOptions& o) {
  return Seconds{std::max(kWindowSteps * step_of(p).count, 10 * o.interval.count)};
}

std::string gpu_text(const GpuState& g) {
  return "GPU " + std::to_string(g.index) + (g.rank ? " (rank " + std::to_string(*g.rank) + ")" : "");
}

std::string rate_text(const Growth& g, const Prediction& p) {
  const auto bytes = [&](double seconds) {
    return text(Bytes{static_cast<std::int64_t>(g.bytes_per_second * seconds)});
  };
  std::string out = bytes(60) + " a minute";
  if (p.step.count > 0) out += ", some " + bytes(p.step.count) + " a step";
  return out;
}

std::string minutes_text(double seconds) {
  char out[32];
  if (seconds < 5400) std::snprintf(out, sizeof out, "%.0f min", std::max(1.0, seconds / 60));
  else std::snprintf(out, sizeof out, "%.1f h", seconds / 3600);
  return out;
}

std::string point_text(const CurvePoint& p) {
  return p.step < 0 ? p.phase : p.phase + " of step " + std::to_string(p.step);
}

}  // namespace

Bytes Prediction::peak() const { return std::min(reserved + outside, capacity); }
Bytes Prediction::margin() const { return prediction_margin(capacity); }
Bytes Prediction::after_init() const {
  Bytes at;
  for (const auto& point : curve) {
    if (point.step < 0) at = point.end;
  }
  return at;
}

const std::vector<std::string>& Watch::codes() {
  static const std::vector<std::string> all = {
      "above-prediction", "ranks-differ", "growing",    "no-process", "missing-ranks",
      "other-gpu",        "fewer-gpus",   "others-use", "gpu-lost",   "process-memory-unknown"};
  return all;
}

Watch::Watch(Prediction prediction, WatchOptions options) : prediction_(std::move(prediction)), options_(options) {}

void Watch::warn(const std::string& code, std::int64_t gpu, const std::string& text, const std::string& fix) {
  if (!given_.emplace(code, gpu).second) return;
  state_.fresh.push_back({Note::Level::Warning, code, text, fix});
  warnings_.push_back(state_.fresh.back());
}

bool Watch::left_prediction() const {
  return std::any_of(warnings_.begin(), warnings_.end(), [](const Note& n) {
    return n.code == "above-prediction" || n.code == "ranks-differ" || n.code == "growing";
  });
}

bool Watch::settled(Seconds at, const Track& track) const {
  return track.ready && at - *track.ready >= kWarmUpSteps * step_of(prediction_);
}

GpuState Watch::state_of(Seconds at, const GpuSample& sample) {
  GpuState g;
  g.index = sample.index;
  g.uuid = sample.uuid;
  g.name = sample.name;
  g.capacity = sample.capacity;
  const bool unknown =
      std::any_of(sample.job.begin(), sample.job.end(), [](const ProcessMemory& p) { return !p.used; });
  if (options_.whole_device || unknown) {
    g.used = sample.used;
    g.in_job = unknown || sample.used >= kIdle;
    if (unknown) {
      warn("process-memory-unknown", kEveryGpu,
           "The driver does not say what a process uses here: all of the device is counted.",
           "say --all, which means just that");
    }
  } else {
    for (const auto& p : sample.job) g.used += *p.used;
    g.in_job = !sample.job.empty();
    g.others = std::max(Bytes{}, sample.used - g.used);
  }
  if (sample.job.size() == 1) g.rank = sample.job.front().rank;
  if (!g.in_job) return g;
  const Bytes least = std::max(MiB(64), prediction_.peak() / 400);
  Track& t =
      tracks_
          .try_emplace(sample.index, Track{{}, std::nullopt, GrowthDetector(window_of(prediction_, options_), least)})
          .first->second;
  t.peak = std::max(t.peak, g.used);
  if (!t.ready && g.used * 10 >= prediction_.after_init() * 9) t.ready = at;
  if (settled(at, t)) t.growth.add(at, g.used);
  g.peak = t.peak;
  g.growth = t.growth.growth();
  for (const auto& point : prediction_.curve) {
    if (point.peak * 101 < g.peak * 100) continue;
    g.reached = point_text(point);
    break;
  }
  return g;
}

void Watch::judge(const GpuState& g) {
  const Prediction& p = prediction_;
  if (g.peak > p.peak() + p.margin()) {
    warn("above-prediction", g.index,
         gpu_text(g) + " uses " + text(g.peak) + ", " + text(g.peak - p.peak()) + " more than the " + text(p.peak()) +
             " predicted.",
         "look for what the prediction does not know: longer sequences, a larger micro-batch, other kernels or "
         "settings; "
         "`zplan simulate` with what the job really has");
  }
  if (g.growth) {
    const double left =
        static_cast<double>(std::max(Bytes{}, g.capacity - g.others - g.used).count) / g.growth->bytes_per_second;
    warn("growing", g.index,
         gpu_text(g) + " grows by " + rate_text(*g.growth, p) + " (" + text(g.growth->rise) + " in " +
             minutes_text(g.growth->over.count) + "); at this rate it is full in " + minutes_text(left) + ".",
         "look for tensors kept over steps (loss.item() instead of loss, lists of outputs) and for batches that get "
         "longer "
         "(cut or pad to the planned length)");
  }
  if (g.others > p.margin() && p.peak() + g.others > g.capacity) {
    warn("others-use", g.index,
         "On " + gpu_text(g) + " other processes use " + text(g.others) + ": the predicted " + text(p.peak()) +
             " do not fit beside them in " + text(g.capacity) + ".",
         "end them (`nvidia-smi` lists them), or take other GPUs");
  }
}

void Watch::judge_all(Seconds at) {
  const GpuState *most = nullptr, *least = nullptr;
  std::int64_t in_job = 0;
  bool all_settled = true;
  for (const auto& g : state_.gpus) {
    if (!g.in_job) continue;
    ++in_job;
    all_settled = all_settled && settled(at, tracks_.at(g.index));
    if (!most || g.peak > most->peak) most = &g;
    if (!least || g.peak < least->peak) least = &g;
  }
  if (in_job > 0 && !job_seen_) job_seen_ = at;
  if (in_job == 0 && !job_seen_ && at - *began_ >= options_.patience) {
    warn("no-process", kEveryGpu, "No process of the job is on any GPU.",
         "check --pid; in a container the driver may not show processes: watch from outside, or with --all");
  }
  if (job_seen_ && at - *job_seen_ >= options_.patience && in_job > 0 && in_job < prediction_.gpus_per_node) {
    warn("missing-ranks", kEveryGpu,
         "The job is on " + std::to_string(in_job) + " of the " + std::to_string(prediction_.gpus_per_node) +
             " GPUs that the plan has on a node.",
         "check CUDA_VISIBLE_DEVICES, and whether a rank has ended");
  }
  state_.rank_difference = most ? most->peak - least->peak : Bytes{};
  if (in_job < 2 || !all_settled || !prediction_.rank_difference) return;
  if (state_.rank_difference > *prediction_.rank_difference + prediction_.margin()) {
    warn("ranks-differ", kEveryGpu,
         gpu_text(*most) + " uses " + text(state_.rank_difference) + " more than " + gpu_text(*least) +
             "; predicted are " +
             (prediction_.rank_difference->count == 0 ? "alike ranks"
                                                      : "at most " + text(*prediction_.rank_difference)) +
             ".",
         "look for longer sequences on one rank (shuffle, or sort by length over all ranks), for work that only one "
         "rank "
         "does (evaluation, logging) and for tensors made on cuda:0 by all ranks");
  }
}

void Watch::judge_machine(Seconds at, const std::vector<GpuSample>& samples) {
  if (!began_) {
    began_ = at;
    if (static_cast<std::int64_t>(samples.size()) < prediction_.gpus_per_node) {
      warn("fewer-gpus", kEveryGpu,
           "This machine has " + std::to_string(samples.size()) + " GPUs; the plan is for " +
               std::to_string(prediction_.gpus_per_node) + " a node.",
           "plan for the machine the job runs on: zplan plan --gpus local");
    }
  }
  for (const auto& s : samples) {
    if (s.name == prediction_.gpu) continue;
    warn("other-gpu", kEveryGpu,
         "The plan is for " + prediction_.gpu + " (" + text(prediction_.capacity) + "); GPU " +
             std::to_string(s.index) + " is " + s.name + " (" + text(s.capacity) + ").",
         "plan for the GPUs that are here: zplan plan --gpus local");
  }
  for (const auto& [index, track] : tracks_) {
    const bool here =
        std::any_of(samples.begin(), samples.end(), [i = index](const GpuSample& s) { return s.index == i; });
    if (!here)
      warn("gpu-lost", index, "GPU " + std::to_string(index) + " no longer answers.",
           "look at nvidia-smi, and for Xid in the kernel's log");
  }
}

const WatchState& Watch::observe(Seconds at, const std::vector<GpuSample>& samples) {
  state_ = {};
  state_.at = at;
  ++samples_;
  judge_machine(at, samples);
  for (const auto& s : samples) state_.gpus.push_back(state_of(at, s));
  for (const auto& g : state_.gpus) {
    if (g.in_job) judge(g);
  }
  judge_all(at);
  return state_;
}

}  // namespace zplan
