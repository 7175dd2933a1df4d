#include "io/trace_reader.h"

#include "io/replay_svg.h"
#include "io/replay_text.h"
#include "spec/error.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

// What torch.cuda.memory._snapshot() returns after x = torch.empty(3 MiB), its free, empty_cache(),
// and a second device that did less.
const std::string snapshot = R"({
  "segments": [
    {"device": 0, "address": 1073741824, "total_size": 2097152, "allocated_size": 512, "active_size": 512,
     "requested_size": 4, "stream": 7, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false,
     "frames": [], "blocks": [
       {"address": 1073741824, "size": 512, "requested_size": 4, "state": "active_allocated", "frames": []},
       {"address": 1073742336, "size": 2096640, "requested_size": 0, "state": "inactive", "frames": []}]},
    {"device": 1, "address": 4096, "total_size": 2097152, "stream": 0, "segment_type": "small",
     "is_expandable": false, "blocks": []}],
  "device_traces": [[
    {"action": "segment_alloc", "addr": 536870912, "size": 20971520, "stream": 0, "time_us": 1, "frames": []},
    {"action": "alloc", "addr": 536870912, "size": 3145728, "stream": 0, "time_us": 2, "frames": [
      {"filename": "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py", "line": 134, "name": "forward"},
      {"filename": "??", "line": 0, "name": "PyEval"}]},
    {"action": "free_requested", "addr": 536870912, "size": 3145728, "stream": 0, "time_us": 3, "frames": []},
    {"action": "free_completed", "addr": 536870912, "size": 3145728, "stream": 0, "time_us": 3, "frames": []},
    {"action": "segment_free", "addr": 536870912, "size": 20971520, "stream": 0, "time_us": 4, "frames": []},
    {"action": "segment_alloc", "addr": 1073741824, "size": 2097152, "stream": 7, "time_us": 5, "frames": []},
    {"action": "alloc", "addr": 1073741824, "size": 4, "stream": 7, "time_us": 6, "frames": []},
    {"action": "snapshot", "addr": 0, "size": 512, "stream": 0, "time_us": 7, "frames": []}],
    [{"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, "time_us": 1, "frames": []}]],
  "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128", "expandable_segments": false},
  "external_annotations": []})";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a snapshot of torch is read as it is", "[io]") {
  const RecordedHistory h = parse_trace(snapshot, "trace.json");
  CHECK(h.snapshot);
  CHECK(h.alloc_conf == "max_split_size_mb:128");
  CHECK(h.streams == std::vector<std::uint64_t>{0, 7});
  REQUIRE(h.recording.entries.size() == 8);
  CHECK(h.recording.entries[1] == TraceEntry{TraceAction::Alloc, 0, 536870912, 3145728});
  CHECK(h.recording.entries[6].stream == 1);
  CHECK_FALSE(h.recording.empty_cache);
  REQUIRE(h.recording.segments.size() == 1);
  CHECK(h.recording.segments[0].blocks.size() == 2);
  CHECK(text(h.contexts[static_cast<std::size_t>(h.context[1])]) ==
        "- | torch/nn/modules/linear.py:134 forward");
  CHECK(parse_trace(snapshot, "trace.json", {1, true}).recording.entries.size() == 1);
}

TEST_CASE("events of a snapshot: empty_cache where something was released unasked", "[io]") {
  const HistoryEvents h = history_events(parse_trace(snapshot, "trace.json"));
  CHECK(h.events == std::vector<Event>{{Action::Allocate, 0, 0, 3145728},
                                       {Action::Free, 0, 0, 0},
                                       {Action::EmptyCache, 0, 0, 0},
                                       {Action::Allocate, 1, 1, 4}});
  CHECK(h.entry == std::vector<std::size_t>{1, 2, 4, 6});
}

TEST_CASE("what a replay says of a recording", "[io]") {
  SECTION("equal, and ambiguous where empty_cache() may have been a retry") {
    const RecordedHistory h = parse_trace(snapshot, "trace.json");
    const ReplayReport report = replay_report(h, {});
    CHECK(report.equal());
    CHECK(replay_text(h, report) ==
          "trace.json: 8 entries, 2 allocations, 2 segments, 2 streams, max_split_size_mb:128\n"
          "replayed exactly: every address, segment and free, and the layout at the end\n"
          "peaks: 3.0 MiB allocated, 20.0 MiB reserved\n"
          "note: a snapshot does not record torch.cuda.empty_cache(): 1 call inferred from what "
          "was released\n"
          "note: 1 release may as well be an allocation's own retry: the layout is the same, "
          "num_alloc_retries is not known\n"
          "  fix: name the limit with --capacity if there was one\n");
  }
  SECTION("different") {
    const RecordedHistory h = parse_trace(changed(snapshot, R"("addr": 536870912, "size": 3145728)",
                                                  R"("addr": 536871424, "size": 3145728)"),
                                          "trace.json");
    const ReplayReport report = replay_report(h, {});
    CHECK_FALSE(report.equal());
    REQUIRE(report.followed.difference);
    CHECK(report.followed.difference->entry == 1);
    CHECK(report.followed.difference->expected ==
          "alloc of 3145728 bytes at 0x20000200 on stream 0");
    CHECK(report.followed.difference->got == "alloc of 3145728 bytes at 0x20000000 on stream 0");
  }
  SECTION("begun late") {
    const RecordedHistory h =
        parse_trace(changed(snapshot, R"({"action": "segment_alloc", "addr": 536870912)",
                            R"({"action": "free_requested", "addr": 1024, "size": 8,
      "stream": 0, "time_us": 0, "frames": []}, {"action": "segment_alloc", "addr": 536870912)"),
                    "trace.json");
    const ReplayReport report = replay_report(h, {});
    CHECK(report.equal());
    CHECK(report.notes.front().code == "recording-starts-late");
  }
}

TEST_CASE("files that are no history are refused by name", "[io]") {
  const auto [text, problem] = GENERATE(table<std::string, std::string>({
      {"[]", "not an allocator history: not a JSON object"},
      {"{\"a\": 1}", "not an allocator history: neither \"trace\" nor \"device_traces\" is there"},
      {"{\"trace\": [[\"allocate\", 0, 1, 0, 0, null]]}",
       "not an allocator history: unknown action \"allocate\""},
  }));
  try {
    parse_trace(text, "trace.json");
    FAIL("accepted");
  } catch (const InputError& e) {
    CHECK(e.where() == "trace.json");
    CHECK(e.problem() == problem);
  }
  CHECK_THROWS_AS(read_trace("no/such/file.json.gz"), InputError);
}

TEST_CASE("the picture shows every segment and the large blocks", "[io]") {
  const std::string svg = replay_svg(parse_trace(snapshot, "a<b>.json"));
  CHECK(svg.find("segment of 20.0 MiB") != std::string::npos);
  CHECK(svg.find("3.0 MiB on stream 0: - | torch/nn/modules/linear.py:134 forward") !=
        std::string::npos);
  CHECK(svg.find("a&lt;b&gt;.json: 8 events") != std::string::npos);
}
