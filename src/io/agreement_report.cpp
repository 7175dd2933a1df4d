#include "io/agreement_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "step/simulate.h"
#include "step/simulation.h"
#include "allocator/replay.h"
#include "units/text.h"

namespace zplan {
namespace {

// Side streams differ from run to run; the code that allocates on them names them.
std::map<StreamId, StreamId> stream_roles(const RecordedHistory& history) {
  std::map<StreamId, std::pair<std::int64_t, std::int64_t>> votes;  // bytes of gathers, of reductions
  const auto& entries = history.recording.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].action != TraceAction::Alloc || entries[i].stream == 0) continue;
    std::string frames;
    if (history.context[i] >= 0) {
      for (const auto& f : history.contexts[static_cast<std::size_t>(history.context[i])].frames) frames += f + " ";
    }
    const bool gathers = (frames.find("partition_parameters") != std::string::npos && frames.find("all_gather") != std::string::npos) ||
                         frames.find(" wait") != std::string::npos;
    (gathers ? votes[entries[i].stream].first : votes[entries[i].stream].second) += entries[i].size;
  }
  std::map<StreamId, StreamId> roles = {{0, kCompute}};
  for (const auto& [stream, vote] : votes) roles[stream] = vote.first > vote.second ? kGather : kReduce;
  return roles;
}

struct Recorded {
  std::vector<std::vector<Request>> requests;          // by phase
  std::vector<std::vector<std::size_t>> entries;     // where each request stands
};

Recorded recorded_requests(const RecordedHistory& history) {
  const auto roles = stream_roles(history);
  Recorded out;
  out.requests.resize(history.marks.size());
  out.entries.resize(history.marks.size());
  std::map<std::int64_t, std::int64_t> requested;    // by address
  std::size_t phase = 0;
  const auto& entries = history.recording.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    while (phase < history.marks.size() && i >= history.marks[phase].entry) ++phase;
    if (phase == history.marks.size()) break;
    const auto& e = entries[i];
    if (e.action == TraceAction::Alloc) {
      requested[e.address] = e.size;
    } else if (e.action != TraceAction::FreeRequested || !requested.count(e.address)) {
      continue;
    }
    out.requests[phase].push_back({e.action == TraceAction::Alloc, roles.at(e.stream), requested[e.address]});
    out.entries[phase].push_back(i);
  }
  return out;
}

struct Simulated {
  std::vector<std::vector<Request>> requests;
  std::vector<std::vector<std::string>> names;
};

Simulated simulated_requests(const SimulatedHistory& history) {
  Simulated out;
  out.requests.resize(history.phases.size());
  out.names.resize(history.phases.size());
  std::vector<std::int64_t> bytes(history.blocks.size(), 0);
  std::size_t phase = 0;
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    while (phase + 1 < history.phases.size() && i >= history.phases[phase].end) ++phase;
    const auto& e = history.events[i];
    const bool allocates = e.action == Action::Allocate;
    if (!allocates && e.action != Action::Free && e.action != Action::FreeRequested) continue;
    const auto block = static_cast<std::size_t>(e.block);
    if (allocates) bytes[block] = e.bytes;
    out.requests[phase].push_back({allocates, e.stream, bytes[block]});
    const auto& info = history.blocks[block];
    out.names[phase].push_back(history.labels[info.label].text + (info.index >= 0 ? " " + std::to_string(info.index) : ""));
  }
  return out;
}

std::string describe(const Request& request, const std::string& what) {
  static const char* const streams[] = {"compute", "gather", "reduce"};
  return std::string(request.allocates ? "allocates " : "frees ") + text_exact(Bytes{request.bytes}) + " on " +
         streams[request.stream] + ": " + what;
}

}  // namespace

double AgreementReport::training() const {
  std::size_t longer = 0, matched = 0;
  for (const auto& p : phases) {
    if (!p.training) continue;
    longer += std::max(p.agreement.recorded, p.agreement.simulated);
    matched += p.agreement.matched;
  }
  return longer == 0 ? 1.0 : static_cast<double>(matched) / static_cast<double>(longer);
}

AgreementReport agreement_report(const RecordedHistory& history, const Run& run) {
  const auto simulated_history = simulate_events(run);
  const auto recorded = recorded_requests(history);
  const auto simulated = simulated_requests(simulated_history);
  const auto replayed = replay(simulated_history.events, allocator_options(run));
  AgreementReport report;
  for (std::size_t i = 0; i < history.marks.size() && i < simulated.requests.size(); ++i) {
    PhaseAgreement p;
    p.phase = history.marks[i].name;
    const auto phase = simulated_history.phases[i].phase;
    p.training = phase == Phase::Forward || phase == Phase::Backward || phase == Phase::Step;
    p.agreement = agreement(recorded.requests[i], simulated.requests[i]);
    if (p.agreement.recorded_at) {
      const auto at = *p.agreement.recorded_at;
      p.recorded_next = p.simulated_next = "ends here";
      if (at < recorded.requests[i].size()) {
        const auto context = history.context[recorded.entries[i][at]];
        p.recorded_next = describe(recorded.requests[i][at],
                                   context >= 0 ? text(history.contexts[static_cast<std::size_t>(context)], 3) : "(freed)");
      }
      if (at < simulated.requests[i].size()) p.simulated_next = describe(simulated.requests[i][at], simulated.names[i][at]);
    }
    if (p.training) {
      report.recorded_reserved_peak = std::max(report.recorded_reserved_peak, history.marks[i].figures.reserved_peak);
      if (i < replayed.phases.size()) {
        report.simulated_reserved_peak = std::max(report.simulated_reserved_peak, replayed.phases[i].reserved_peak);
      }
    }
    report.phases.push_back(std::move(p));
  }
  return report;
}

std::string agreement_text(const AgreementReport& report) {
  std::string out = "phase        recorded  simulated    matched\n";
  char line[160];
  for (const auto& p : report.phases) {
    std::snprintf(line, sizeof line, "%-10s %10zu %10zu %10zu  %6.2f %%\n", p.phase.c_str(), p.agreement.recorded,
                  p.agreement.simulated, p.agreement.matched, 100 * p.agreement.ratio());
    out += line;
    if (!p.recorded_next.empty()) {
      out += "  first difference, after " + std::to_string(*p.agreement.recorded_at) + " equal events:\n    recorded   " +
             p.recorded_next + "\n    simulated  " + p.simulated_next + "\n";
    }
  }
  std::snprintf(line, sizeof line, "training phases: %.2f %% of the events agree; reserved peak recorded %s, simulated %s\n",
                100 * report.training(), text(report.recorded_reserved_peak, 2).c_str(),
                text(report.simulated_reserved_peak, 2).c_str());
  return out + line;
}

}  // namespace zplan
