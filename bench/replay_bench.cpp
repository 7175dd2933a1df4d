// Recorded histories replayed: events a second, the smallest capacity found, a recording checked
// line by line.
#include <benchmark/benchmark.h>

#include <string>

#include "allocator/alloc_conf.h"
#include "allocator/capacity.h"
#include "allocator/follow.h"
#include "allocator/replay.h"
#include "io/trace_reader.h"

namespace {

using namespace zplan;

struct History {
  RecordedHistory recorded;
  std::vector<Event> events;
  AllocatorOptions options;
};

History history(const std::string& name) {
  History h;
  h.recorded = read_trace(ZPLAN_SOURCE_DIR "/tests/truth/traces/" + name + ".json.gz");
  h.events = history_events(h.recorded).events;
  h.options = parse_alloc_conf(h.recorded.alloc_conf);
  return h;
}

void replay_history(benchmark::State& state, const std::string& name) {
  const History h = history(name);
  for (auto _ : state) benchmark::DoNotOptimize(replay(h.events, h.options));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(h.events.size()));
}
BENCHMARK_CAPTURE(replay_history, zero1, std::string("t02"));
BENCHMARK_CAPTURE(replay_history, zero3, std::string("t05"));
BENCHMARK_CAPTURE(replay_history, zero3_offload, std::string("t07"));
BENCHMARK_CAPTURE(replay_history, zero3_expandable, std::string("t15"));

void find_smallest_capacity(benchmark::State& state, const std::string& name) {
  const History h = history(name);
  for (auto _ : state) benchmark::DoNotOptimize(smallest_capacity(h.events, h.options));
}
BENCHMARK_CAPTURE(find_smallest_capacity, zero3, std::string("t05"));

void check_recording(benchmark::State& state, const std::string& name) {
  const History h = history(name);
  for (auto _ : state) benchmark::DoNotOptimize(follow(h.recorded.recording, h.options));
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(h.recorded.recording.entries.size()));
}
BENCHMARK_CAPTURE(check_recording, zero3, std::string("t05"));

void read_recording(benchmark::State& state, const std::string& name) {
  const std::string path = ZPLAN_SOURCE_DIR "/tests/truth/traces/" + name + ".json.gz";
  for (auto _ : state) benchmark::DoNotOptimize(read_trace(path));
}
BENCHMARK_CAPTURE(read_recording, zero3, std::string("t05"));

}  // namespace
