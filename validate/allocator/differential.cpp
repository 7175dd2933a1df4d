// Drives random histories through torch's own CUDA caching allocator and through ours, and compares
// after every step what each traced, every statistic and, now and then, the table of segments.
//   allocator_differential [--events N] [--seconds T] [--seed S] [--episode SEED] [--out FILE]
// Ends after so many events or seconds, whichever comes first: a device under load is slow to map.
// Exit code 1 on a difference, which is reduced to a short list of steps first.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "allocator/alloc_conf.h"
#include "allocator/follow.h"
#include "conf_strings.h"
#include "device.h"
#include "episode.h"
#include "model_side.h"
#include "torch_side.h"

namespace zplan {
namespace {

constexpr int kStreams = 4;

struct Mismatch {
  std::size_t step = 0;
  std::string what;
};

struct Totals {
  std::int64_t steps = 0, traced = 0, episodes = 0, ooms = 0, retries = 0, frees = 0, maps = 0,
               snapshots = 0;
};

class Comparison {
 public:
  Comparison(TorchAllocator& torch, const Device& device, const Episode& episode,
             const AllocatorOptions& options, Totals& totals)
      : torch_(torch),
        device_(device),
        episode_(episode),
        model_(options, kStreams),
        totals_(totals) {
    if (device.stand_in) model_.know_last_range(device.last_range);
  }

  std::optional<Mismatch> run() {
    for (std::size_t i = 0; i < episode_.steps.size() && !mismatch_ && !ended_; ++i) {
      at_ = i;
      step(episode_.steps[i]);
      totals_.steps += 1;
      if (i % 97 == 0 || i + 1 == episode_.steps.size()) compare_layout();
    }
    open_all();
    while (!live_.empty() && !mismatch_) free(live_.size() - 1);
    for (const Live& l : live_) torch_.free(l.theirs);
    live_.clear();
    if (!mismatch_) {
      step({Step::Op::EmptyCache});
      compare_layout();
    } else {
      torch_.empty_cache();
    }
    torch_.take_trace();
    const Statistics& s = model_.allocator().statistics();
    if (!mismatch_ && s.reserved_bytes.current() != 0)
      difference("memory is left after everything was freed");
    return mismatch_;
  }

 private:
  struct Live {
    int theirs;
    BlockIndex ours;
  };

  void difference(const std::string& what) {
    if (!mismatch_) mismatch_ = Mismatch{at_, what};
  }

  void step(const Step& s) {
    const auto stream = static_cast<StreamId>(s.stream);
    switch (s.op) {
      case Step::Op::Allocate:
        return allocate(s.bytes, stream);
      case Step::Op::Free:
        if (!live_.empty()) free(s.target % live_.size());
        return;
      case Step::Op::RecordStream:
        if (live_.empty()) return;
        torch_.record_stream(live_[s.target % live_.size()].theirs, stream);
        model_.record_stream(live_[s.target % live_.size()].ours, stream);
        return;
      case Step::Op::Close:
        if (model_.closed(stream)) return;
        torch_.close(stream);
        model_.close(stream);
        return;
      case Step::Op::Open:
        return open(stream);
      case Step::Op::EmptyCache:
        if (!device_.stand_in) open_all();
        torch_.empty_cache();
        model_.empty_cache();
        return compare();
      case Step::Op::ResetPeak:
        torch_.reset_peak();
        model_.allocator().statistics().reset_peak();
        return compare();
      case Step::Op::ResetAccumulated:
        torch_.reset_accumulated();
        model_.allocator().statistics().reset_accumulated();
        model_.synchronisations_reset();
        return compare();
    }
  }

  void open(StreamId stream) {
    if (!model_.closed(stream)) return;
    torch_.open(stream);
    model_.open(stream);
  }
  void open_all() {
    for (StreamId u = 0; u < kStreams; ++u) open(u);
  }

  // A real device may not wait behind a gate that only we can open.
  void allocate(std::int64_t bytes, StreamId stream) {
    bool any_closed = false;
    for (StreamId u = 0; u < kStreams; ++u) any_closed |= model_.closed(u);
    if (!device_.stand_in && any_closed && model_.touches_device(bytes, stream)) open_all();
    const auto theirs = torch_.allocate(bytes, stream);
    recorded_ = torch_.take_trace();
    const BlockIndex ours = model_.allocate(bytes, stream, recorded_);
    if (theirs.block.has_value() != (ours != kNoBlock))
      return difference(std::string("torch ") + (theirs.block ? "served" : "refused") +
                        " what we did not");
    if (theirs.block) live_.push_back({*theirs.block, ours});
    if (theirs.out_of_memory) compare_message(*theirs.out_of_memory);
    compare();
  }

  void free(std::size_t i) {
    const Live l = live_[i];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    torch_.free(l.theirs);
    model_.free(l.ours);
    for (const StreamId u : model_.just_recorded())
      if (!model_.closed(u)) torch_.synchronise(u);  // so that the event has surely passed
    compare();
  }

  // Beyond the device's own numbers, which on a real one include every other process.
  void compare_message(const std::string& theirs) {
    totals_.ooms += 1;
    OutOfMemory oom = *model_.allocator().out_of_memory();
    const std::string ours = message(oom, model_.allocator().options().rules);
    const auto tail = [&](const std::string& text) {
      const auto at = text.find(oom.allowed ? " allowed; " : "Of the allocated memory ");
      return device_.stand_in || at == std::string::npos ? text : text.substr(at);
    };
    if (tail(theirs) != tail(ours)) difference("message:\n  torch " + theirs + "\n  ours  " + ours);
  }

  void compare() {
    std::vector<TraceEntry> theirs = std::move(recorded_);
    recorded_.clear();
    for (const TraceEntry& e : torch_.take_trace()) theirs.push_back(e);
    std::vector<TraceEntry>& ours = model_.written();
    totals_.traced += static_cast<std::int64_t>(theirs.size());
    bool reordered = false;
    for (std::size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
      if (i >= theirs.size()) return difference("only ours: " + text(ours[i]));
      if (i >= ours.size()) return difference("only torch: " + text(theirs[i]));
      if (theirs[i].action == TraceAction::SegmentFree) totals_.frees += 1;
      if (theirs[i].action == TraceAction::SegmentMap) totals_.maps += 1;
      if (theirs[i].action == TraceAction::Oom && !device_.stand_in)
        ours[i].address = theirs[i].address;
      if (theirs[i] == ours[i]) continue;
      const auto match =
          std::find(ours.begin() + static_cast<std::ptrdiff_t>(i), ours.end(), theirs[i]);
      if (theirs[i].action == TraceAction::FreeCompleted && model_.order_matters() &&
          match != ours.end()) {
        std::iter_swap(ours.begin() + static_cast<std::ptrdiff_t>(i), match);
        reordered = true;
        continue;
      }
      return difference("torch " + text(theirs[i]) + "\n  ours  " + text(ours[i]));
    }
    ours.clear();
    if (reordered) {  // sums and peaks of inactive_split hang on the order in which blocks merged
      torch_.reset_peak();
      torch_.reset_accumulated();
      model_.allocator().statistics().reset_peak();
      model_.allocator().statistics().reset_accumulated();
      model_.synchronisations_reset();
      // Which block survives a merge decides by its counter over what comes later, and the order
      // was a hash table's: from here on both may be right.
      ended_ = model_.allocator().options().rules.tie_break == TieBreak::BlockCounter;
    }
    compare_statistics();
  }

  void compare_statistics() {
    const auto theirs = torch_.statistics();
    const auto ours = statistics_of(model_.allocator().statistics());
    for (std::size_t i = 0; i < theirs.size(); ++i)
      if (theirs[i] != ours[i])
        return difference(statistic_names()[i] + ": torch " + std::to_string(theirs[i]) +
                          ", ours " + std::to_string(ours[i]));
    totals_.retries = std::max(totals_.retries, model_.allocator().statistics().num_alloc_retries);
  }

  void compare_layout() {
    if (mismatch_) return;
    totals_.snapshots += 1;
    auto theirs = torch_.snapshot();
    torch_.take_trace();  // a snapshot is itself traced
    auto ours = model_.allocator().snapshot();
    for (auto* list : {&theirs, &ours})
      for (SegmentView& s : *list)
        for (BlockView& b : s.blocks)
          if (b.state == BlockState::Free) b.requested = 0;  // of an earlier use
    if (theirs != ours) difference("the tables of segments differ");
    if (const std::string wrong = model_.allocator().check(); !wrong.empty())
      difference("ours broke: " + wrong);
  }

  TorchAllocator& torch_;
  const Device& device_;
  const Episode& episode_;
  ModelAllocator model_;
  Totals& totals_;
  std::vector<Live> live_;
  std::vector<TraceEntry> recorded_;
  std::size_t at_ = 0;
  bool ended_ = false;
  std::optional<Mismatch> mismatch_;
};

// A reservation whose first mapping failed stays: use it once, so that it goes with what it held.
void drop_reservations(TorchAllocator& torch, Device& device) {
  torch.configure(device.rules.large_segment_size_known
                      ? "expandable_segments:True,large_segment_size_mb:20"
                      : "expandable_segments:True");
  torch.set_memory_fraction(1.0);
  device.set_capacity(device.total, 1);
  std::vector<int> blocks;
  for (StreamId u = 0; u < kStreams; ++u)
    for (const std::int64_t bytes : {std::int64_t{512}, std::int64_t{20} << 20})
      blocks.push_back(*torch.allocate(bytes, u).block);
  for (const int b : blocks) torch.free(b);
  torch.empty_cache();
}

std::optional<Mismatch> run(TorchAllocator& torch, Device& device, const Episode& episode,
                            Totals& totals) {
  drop_reservations(torch, device);
  if (const auto refused = torch.configure(episode.conf))
    return Mismatch{0, "torch refuses: " + *refused};
  AllocatorOptions options = parse_alloc_conf(episode.conf, device.rules);
  const Bytes total = device.total;
  device.set_capacity(episode.capacity, episode.seed);
  options.device_total = total;
  if (device.stand_in) options.device_free = episode.capacity;
  const double fraction =
      episode.limit.count == 0 || episode.limit >= total
          ? 1.0
          : static_cast<double>(episode.limit.count) / static_cast<double>(total.count);
  torch.set_memory_fraction(fraction);
  options.capacity_limit = fraction_limit(fraction, total, options.rules);
  torch.reset_peak();
  torch.reset_accumulated();
  torch.take_trace();
  totals.episodes += 1;
  return Comparison(torch, device, episode, options, totals).run();
}

// Fewer steps with a difference still: drops ever smaller pieces while one remains.
Episode reduce(TorchAllocator& torch, Device& device, Episode episode) {
  Totals unused;
  for (std::size_t piece = episode.steps.size() / 2; piece > 0; piece /= 2)
    for (std::size_t from = 0; from < episode.steps.size();) {
      Episode shorter = episode;
      const auto begin = shorter.steps.begin() + static_cast<std::ptrdiff_t>(from);
      shorter.steps.erase(
          begin, begin + static_cast<std::ptrdiff_t>(std::min(piece, shorter.steps.size() - from)));
      if (run(torch, device, shorter, unused)) {
        episode = std::move(shorter);
      } else {
        from += piece;
      }
    }
  return episode;
}

int differential(int argc, char** argv) {
  std::int64_t events = 1'000'000;
  double most_seconds = 1e9;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> only;
  std::string out;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--events") events = std::stoll(value);
    if (option == "--seconds") most_seconds = std::stod(value);
    if (option == "--seed") seed = std::stoull(value);
    if (option == "--episode") only = std::stoull(value);
    if (option == "--out") out = value;
  }
  Device device = open_device();
  TorchAllocator torch(kStreams);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Totals totals;
  const ConfComparison conf = compare_conf_strings(torch, device.rules, seed, 20'000);
  std::optional<Mismatch> found;
  if (!conf.difference.empty()) std::printf("configuration: %s\n", conf.difference.c_str());
  for (std::uint64_t n = seed * 1'000'003;
       totals.steps < events && elapsed() < most_seconds && !found; ++n) {
    Episode episode = make_episode(only.value_or(n), device.rules, kStreams, 2000);
    found = run(torch, device, episode, totals);
    if (!found && only) break;
    if (!found) continue;
    std::printf("difference in episode %" PRIu64 " (%s, limit %" PRId64 " MiB, device %" PRId64
                " MiB) at step %zu: %s\n",
                episode.seed, episode.conf.c_str(), episode.limit.count >> 20,
                episode.capacity.count >> 20, found->step, found->what.c_str());
    std::fflush(stdout);  // reducing takes long on a real device
    episode.steps.resize(std::min(episode.steps.size(), found->step + 1));
    episode = reduce(torch, device, episode);
    const auto again = run(torch, device, episode, totals);
    std::printf("reduced to %zu steps: %s\n", episode.steps.size(),
                again ? again->what.c_str() : "gone");
    for (const Step& s : episode.steps) std::printf("  %s\n", text(s).c_str());
  }
  char result[1024];
  std::snprintf(
      result, sizeof result,
      "{ \"schema\": \"zplan.allocator_differential/1\", \"device\": \"%s\", \"torch\": \"%s\", "
      "\"seed\": %" PRIu64 ", \"steps\": %" PRId64 ", \"trace_entries_compared\": %" PRId64
      ", \"episodes\": %" PRId64 ", \"out_of_memory\": %" PRId64 ", \"segments_freed\": %" PRId64
      ", \"segments_mapped\": %" PRId64 ", \"layouts_compared\": %" PRId64
      ", \"conf_strings\": %zu, \"differences\": %d, \"seconds\": %.1f }\n",
      device.name.c_str(), device.torch.c_str(), seed, totals.steps, totals.traced, totals.episodes,
      totals.ooms, totals.frees, totals.maps, totals.snapshots, conf.compared,
      (found ? 1 : 0) + (conf.difference.empty() ? 0 : 1), elapsed());
  std::fputs(result, stdout);
  if (!out.empty()) std::ofstream(out) << result;
  std::fflush(stdout);
  std::_Exit(found || !conf.difference.empty()
                 ? 1
                 : 0);  // the allocator's tracker outlives the objects here
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) { return zplan::differential(argc, argv); }
