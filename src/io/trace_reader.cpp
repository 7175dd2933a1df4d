// One pass over the text: trace entries are taken and dropped as they close, so that a snapshot of
// many gigabytes never stands in memory as a document.
#include "io/trace_reader.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "io/gzip.h"
#include "spec/error.h"

namespace zplan {
namespace {

using json = nlohmann::json;

constexpr const char* kRecipe = "record it as docs/allocator.md#recording shows";

// An entry before its stream's handle has become a StreamId.
struct RawEntry {
  TraceEntry entry;
  std::uint64_t stream = 0;
  std::int64_t time_us = 0;
  std::int32_t context = -1;
};

TraceAction action_named(const std::string& name) {
  static const std::map<std::string, TraceAction> actions = {
      {"alloc", TraceAction::Alloc},
      {"free_requested", TraceAction::FreeRequested},
      {"free_completed", TraceAction::FreeCompleted},
      {"segment_alloc", TraceAction::SegmentAlloc},
      {"segment_free", TraceAction::SegmentFree},
      {"segment_map", TraceAction::SegmentMap},
      {"segment_unmap", TraceAction::SegmentUnmap},
      {"oom", TraceAction::Oom},
      {"snapshot", TraceAction::Snapshot},
  };
  const auto found = actions.find(name);
  if (found == actions.end()) throw std::invalid_argument("unknown action \"" + name + "\"");
  return found->second;
}

BlockState state_named(const std::string& name) {
  if (name == "active_allocated") return BlockState::Allocated;
  if (name == "inactive") return BlockState::Free;
  if (name == "active_pending_free" || name == "active_awaiting_free") return BlockState::Pending;
  throw std::invalid_argument("unknown block state \"" + name + "\"");
}

std::int64_t integer(const json& value) { return value.is_null() ? 0 : value.get<std::int64_t>(); }

class Reader {
 public:
  Reader(const std::string& file, const TraceReadOptions& options) : options_(options) {
    history_.file = file;
  }

  RecordedHistory read(const std::string& text) {
    const auto filter = [this](int depth, json::parse_event_t event, json& parsed) {
      return keep(depth, event, parsed);
    };
    json document;
    try {
      document = json::parse(text, filter);
      if (!document.is_object()) throw std::invalid_argument("not a JSON object");
      history_.snapshot = document.contains("device_traces");
      if (!history_.snapshot && !document.contains("trace"))
        throw std::invalid_argument("neither \"trace\" nor \"device_traces\" is there");
      history_.snapshot ? snapshot(document) : compact(document);
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      throw InputError(history_.file, "not an allocator history: " + std::string(e.what()),
                       kRecipe);
    }
    return std::move(history_);
  }

 private:
  // false drops what was just parsed from the document.
  bool keep(int depth, json::parse_event_t event, json& parsed) {
    using E = json::parse_event_t;
    if (event == E::key && depth == 1) {
      top_ = parsed.get<std::string>();
      return true;
    }
    if (top_ == "trace" && event == E::array_end && depth == 2) {
      entries_.push_back(compact_entry(parsed));
      return false;
    }
    if (top_ == "device_traces") {
      if (event == E::array_start && depth == 2) devices_.emplace_back();
      if (event == E::object_end && depth == 3) {
        devices_.back().push_back(snapshot_entry(parsed));
        return false;
      }
      if (event == E::key && !options_.contexts) return parsed != "frames";
    }
    if (top_ == "segments" && event == E::key) return parsed != "frames" && parsed != "history";
    return true;
  }

  // [action, address, bytes requested, stream, time_us, context]
  static RawEntry compact_entry(const json& e) {
    RawEntry raw;
    raw.entry.action = action_named(e.at(0).get_ref<const std::string&>());
    raw.entry.address = integer(e.at(1));
    raw.entry.size = integer(e.at(2));
    raw.stream = e.at(3).is_null() ? 0 : e.at(3).get<std::uint64_t>();
    raw.time_us = e.size() > 4 ? integer(e.at(4)) : 0;
    if (e.size() > 5 && !e.at(5).is_null()) raw.context = e.at(5).get<std::int32_t>();
    return raw;
  }

  RawEntry snapshot_entry(const json& e) {
    RawEntry raw;
    raw.entry.action = action_named(e.at("action").get_ref<const std::string&>());
    const bool oom = raw.entry.action == TraceAction::Oom;
    raw.entry.address = e.contains("addr") ? integer(e["addr"])
                        : oom              ? e.value("device_free", std::int64_t{0})
                                           : 0;
    raw.entry.size = integer(e.at("size"));
    raw.stream = e.value("stream", std::uint64_t{0});
    raw.time_us = e.value("time_us", std::int64_t{0});
    if (raw.entry.action == TraceAction::Alloc && e.contains("frames"))
      raw.context = context(e["frames"]);
    return raw;
  }

  // Python frames as "file:line function" from below site-packages; C++ frames have no such file.
  std::int32_t context(const json& frames) {
    AllocationContext c;
    std::string key;
    for (const json& frame : frames) {
      const std::string& file = frame.at("filename").get_ref<const std::string&>();
      const bool python = file.size() > 3 && file.compare(file.size() - 3, 3, ".py") == 0;
      if (!python && file != "<stdin>" && file != "<string>") continue;
      const std::size_t site = file.find("site-packages/");
      c.frames.push_back((site == std::string::npos ? file : file.substr(site + 14)) + ":" +
                         std::to_string(frame.value("line", 0)) + " " +
                         frame.value("name", std::string()));
      key += c.frames.back() + '\n';
    }
    const auto [found, is_new] =
        context_index_.emplace(key, static_cast<std::int32_t>(history_.contexts.size()));
    if (is_new) history_.contexts.push_back(std::move(c));
    return found->second;
  }

  void compact(const json& d) {
    const auto text_of = [&](const char* key) {
      return d.contains(key) ? d[key].dump() : std::string();
    };
    history_.case_json = text_of("case");
    history_.ds_config_json = text_of("ds_config");
    history_.versions_json = text_of("versions");
    if (d.contains("versions"))
      history_.torch_version = d["versions"].value("torch", std::string());
    history_.alloc_conf = d.value("alloc_conf", std::string());
    for (const json& c : d.value("contexts", json::array()))
      history_.contexts.push_back({c.at(0).get<std::vector<std::string>>(),
                                   c.at(1).is_null() ? std::string() : c.at(1).get<std::string>(),
                                   c.at(2).get<std::vector<std::string>>()});
    take_entries(entries_, d);
    if (d.contains("empty_cache_us")) {
      history_.recording.empty_cache.emplace();
      flush_times_ = d["empty_cache_us"].get<std::vector<std::int64_t>>();
      for (const std::int64_t t : flush_times_)
        history_.recording.empty_cache->push_back(first_entry_at(t));
    }
    for (const json& m : d.value("marks", json::array())) mark(m);
  }

  void mark(const json& m) {
    RecordedMark mark;
    mark.name = m.at("name").get<std::string>();
    mark.entry = first_entry_at(m.at("at_us").get<std::int64_t>() + 1);
    PhaseFigures& f = mark.figures;
    const auto bytes = [&](const char* key) { return Bytes{m.value(key, std::int64_t{0})}; };
    f.allocated = bytes("alloc"), f.allocated_peak = bytes("alloc_peak");
    f.reserved = bytes("reserved"), f.reserved_peak = bytes("reserved_peak");
    f.active = bytes("active"), f.active_peak = bytes("active_peak");
    f.inactive_split = bytes("inactive_split");
    f.alloc_retries = m.value("retries", std::int64_t{0});
    if (m.contains("pinned") && m["pinned"].is_object())
      mark.host_pinned_bytes = m["pinned"].value("allocated_bytes.current", std::int64_t{0});
    history_.recording.marks.push_back(
        {mark.entry, flushes_before(m.at("at_us").get<std::int64_t>())});
    history_.marks.push_back(std::move(mark));
  }

  std::size_t flushes_before(std::int64_t time_us) const {
    return static_cast<std::size_t>(
        std::upper_bound(flush_times_.begin(), flush_times_.end(), time_us) - flush_times_.begin());
  }
  std::size_t first_entry_at(std::int64_t time_us) const {
    const auto& times = history_.times_us;
    return static_cast<std::size_t>(
        std::find_if(times.begin(), times.end(), [&](auto t) { return t >= time_us; }) -
        times.begin());
  }

  void snapshot(const json& d) {
    std::size_t device = 0;
    if (options_.device) {
      device = *options_.device;
      if (device >= devices_.size())
        throw InputError(history_.file, "there is no device " + std::to_string(device),
                         "the snapshot has devices 0 to " + std::to_string(devices_.size() - 1));
    } else {
      for (std::size_t i = 1; i < devices_.size(); ++i)
        if (devices_[i].size() > devices_[device].size()) device = i;
    }
    if (d.contains("allocator_settings"))
      history_.alloc_conf = d["allocator_settings"].value("PYTORCH_CUDA_ALLOC_CONF", std::string());
    take_entries(devices_.empty() ? std::vector<RawEntry>() : devices_[device], d, device);
  }

  // Streams become small numbers in the order of their handles: PyTorch orders free blocks by
  // handle.
  void take_entries(const std::vector<RawEntry>& entries, const json& d, std::size_t device = 0) {
    std::vector<std::uint64_t>& streams = history_.streams;
    streams = {0};
    for (const RawEntry& e : entries)
      if (std::find(streams.begin(), streams.end(), e.stream) == streams.end())
        streams.push_back(e.stream);
    std::sort(streams.begin(), streams.end());
    if (streams.size() > 256)
      throw InputError(history_.file, "more than 256 streams",
                       "record a shorter part of the program");
    for (const RawEntry& e : entries) {
      history_.recording.entries.push_back(e.entry);
      history_.recording.entries.back().stream = stream_id(e.stream);
      history_.times_us.push_back(e.time_us);
      history_.context.push_back(options_.contexts ? e.context : -1);
    }
    for (const json& s : d.value("segments", json::array())) segment(s, device);
    std::sort(history_.recording.segments.begin(), history_.recording.segments.end(),
              [](const SegmentView& a, const SegmentView& b) { return a.address < b.address; });
  }

  StreamId stream_id(std::uint64_t handle) const {
    const auto& streams = history_.streams;
    return static_cast<StreamId>(std::find(streams.begin(), streams.end(), handle) -
                                 streams.begin());
  }

  void segment(const json& s, std::size_t device) {
    if (history_.snapshot && s.value("device", std::size_t{0}) != device) return;
    SegmentView view;
    view.address = s.at("address").get<std::int64_t>();
    view.size = s.at("total_size").get<std::int64_t>();
    view.stream = stream_id(s.value("stream", std::uint64_t{0}));
    view.pool = s.value("segment_type", std::string()) == "small" ? Pool::Small : Pool::Large;
    view.expandable = s.value("is_expandable", false);
    for (const json& b : s.at("blocks")) {
      if (b.is_array())  // [address, size, requested, state]
        view.blocks.push_back({b.at(1).get<std::int64_t>(), b.at(2).get<std::int64_t>(),
                               state_named(b.at(3).get<std::string>())});
      else
        view.blocks.push_back({b.at("size").get<std::int64_t>(),
                               b.value("requested_size", std::int64_t{0}),
                               state_named(b.at("state").get<std::string>())});
    }
    history_.recording.segments.push_back(std::move(view));
  }

  TraceReadOptions options_;
  RecordedHistory history_;
  std::string top_;  // the key of the document we are under
  std::vector<RawEntry> entries_;
  std::vector<std::int64_t> flush_times_;
  std::vector<std::vector<RawEntry>> devices_;
  std::unordered_map<std::string, std::int32_t> context_index_;
};

}  // namespace

RecordedHistory parse_trace(const std::string& text, const std::string& file,
                            const TraceReadOptions& options) {
  return Reader(file, options).read(text);
}

RecordedHistory read_trace(const std::string& path, const TraceReadOptions& options) {
  return parse_trace(read_maybe_gzipped(path), path, options);
}

}  // namespace zplan
