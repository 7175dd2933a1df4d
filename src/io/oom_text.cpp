#include "io/oom_text.h"

#include <algorithm>
#include <cmath>

#include "io/report_parts.h"
#include "units/text.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostWays = 8, kLargestParts = 4;
constexpr double kAsFast = 0.03;  // steps of one configuration repeat to this

std::string readable(const char* component) {
  std::string s = component;
  std::replace(s.begin(), s.end(), '_', ' ');
  return s;
}

std::string message_line(const OomMessage& m) {
  std::string out = m.gpu ? "GPU " + std::to_string(*m.gpu) : "A GPU";
  if (m.rank) out += " (rank " + std::to_string(*m.rank) + ")";
  out += " tried to allocate " + text(m.tried.value, 2) + " with " + text(m.allocated.value, 2) + " allocated and " +
         text(m.unallocated, 2) + " reserved but unallocated; PyTorch could have " + text(m.limit(), 2) + " at most" +
         (m.allowed && m.limit() == *m.allowed ? ", the limit set." : ".");
  if (m.messages > 1) out += " The first of " + std::to_string(m.messages) + " messages.";
  return out;
}

// "optimizer 15.3, parameters 3.8, ... GiB".
std::string largest_parts(const OomMatch& match) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kComponents; ++i) {
    if (match.live[i].count > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return match.live[a] > match.live[b]; });
  if (order.size() > kLargestParts) order.resize(kLargestParts);
  std::string out;
  for (const auto i : order)
    out += (out.empty() ? "" : ", ") + readable(kComponentNames[i]) + " " + text(match.live[i]);
  return out;
}

std::string why(const OomExplanation& x) {
  const OomMessage& m = x.message;
  const Bytes sum = m.allocated.value + m.tried.value;
  std::string out = text(m.allocated.value) + " + " + text(m.tried.value) + " = " + text(sum);
  if (x.fragmentation) {
    out += " would fit into " + text(m.limit()) + ", but the " + text(m.unallocated) +
           " that PyTorch holds unallocated are in pieces too small for it: fragmentation decides.";
  } else {
    out += " is " + text(sum - m.limit()) + " more than the " + text(m.limit()) +
           " there are: memory is short, not only in pieces.";
  }
  if (m.others > MiB(256)) out += " Other processes have " + text(m.others) + " of the GPU.";
  return out;
}

std::string simulated_line(const OomExplanation& x) {
  if (x.simulated) {
    return "it runs out in " + moment_text(x.simulated->at) + " (" + text(x.simulated->requested) + " more with " +
           text(x.simulated->allocated) + " allocated)";
  }
  return "it does not run out: " + text(x.allocated_peak) + " allocated at most, " + text(x.reserved_peak) +
         " reserved without a limit";
}

// "expandable segments: 37.0 GiB reserved, as fast; tight".
std::string way_line(const WayOut& w) {
  std::string out = w.text + ": " + gib(w.need) + " GiB reserved";
  if (w.slower) out += std::abs(*w.slower - 1) < kAsFast ? ", as fast" : ", " + times(*w.slower) + " the step time";
  if (offload_of(w.strategy.ds.zero) != Offload::None) out += ", " + text(w.host, 0) + " of host memory a node";
  if (!w.needs.empty()) out += ", needs " + w.needs;
  return out + (w.by_margin ? "" : "; tight");
}

Json size(const std::optional<Bytes>& b) { return b ? Json(b->count) : Json(nullptr); }

Json moment_json(const Moment& m) {
  Json j = Json::object();
  if (m.step >= 0) j = {{"step", m.step}, {"micro_step", m.micro_step}};
  j["phase"] = name(m.phase);
  j["event"] = m.event;
  return j;
}

}  // namespace

std::string oom_text(const OomReport& r, const TextStyle& style) {
  const Paint paint(style);
  const OomExplanation& x = r.explanation;
  std::string out = paint.bold(subject(x.run, r.cluster)) + "\n";
  out += paragraph("Message", message_line(x.message), paint);
  if (x.match) {
    const OomMatch& m = *x.match;
    out += paragraph("Where",
                     paint.bold(moment_text(m.at)) + ": " + text(m.requested) + " of " + readable(name(m.component)) +
                         " with " + text(m.allocated) + " allocated, on rank " + std::to_string(x.run.rank) + ". " +
                         (m.runs_out ? "Simulated under the same limit, memory runs out at the same request."
                                     : "Simulated under the same limit, " + simulated_line(x) +
                                           "; this is the request most like the message's."),
                     paint);
    out += paragraph("Why", why(x), paint);
    out += paragraph("Live then", largest_parts(m), paint);
  } else {
    out += paragraph("Where",
                     paint.warn("Not found.") + " The simulation has no such moment; under the message's limit " +
                         simulated_line(x) + ".",
                     paint);
    for (std::size_t i = 0; i < x.reasons.size(); ++i) out += paragraph(i == 0 ? "Perhaps" : "", x.reasons[i], paint);
  }
  out += "\n";
  if (r.ways.empty()) {
    out += paragraph(
        "Ways out",
        "none of those that zplan knows: fewer tokens a sequence, adapters (--finetune lora), or larger GPUs", paint);
  }
  for (std::size_t i = 0; i < std::min(kMostWays, r.ways.size()); ++i) {
    out += paragraph(i == 0 ? "Ways out" : "", way_line(r.ways[i]), paint);
  }
  return out + notes_text(r.notes, paint);
}

nlohmann::ordered_json oom_json(const OomReport& r) {
  const OomExplanation& x = r.explanation;
  const OomMessage& m = x.message;
  Json j = {{"schema", "zplan.oom/1"},
            {"zplan_version", r.version},
            {"explained", x.match.has_value()},
            {"message",
             {{"tried_bytes", m.tried.value.count},
              {"allocated_bytes", m.allocated.value.count},
              {"unallocated_bytes", m.unallocated.count},
              {"gpu", m.gpu ? Json(*m.gpu) : Json(nullptr)},
              {"rank", m.rank ? Json(*m.rank) : Json(nullptr)},
              {"total_bytes", size(m.total)},
              {"free_bytes", size(m.free)},
              {"process_bytes", size(m.process)},
              {"others_bytes", m.others.count},
              {"allowed_bytes", size(m.allowed)},
              {"limit_bytes", m.limit().count}}},
            {"rank", x.run.rank}};
  j["match"] = nullptr;
  if (x.match) {
    Json live = Json::object();
    for (std::size_t i = 0; i < kComponents; ++i) live[kComponentNames[i]] = x.match->live[i].count;
    j["match"] = {{"at", moment_json(x.match->at)},
                  {"component", name(x.match->component)},
                  {"requested_bytes", x.match->requested.count},
                  {"allocated_bytes", x.match->allocated.count},
                  {"runs_out", x.match->runs_out},
                  {"fragmentation", x.fragmentation},
                  {"by_component", live}};
  }
  j["simulated"] = nullptr;
  if (x.simulated) {
    j["simulated"] = moment_json(x.simulated->at);
    j["simulated"]["requested_bytes"] = x.simulated->requested.count;
    j["simulated"]["allocated_bytes"] = x.simulated->allocated.count;
    j["simulated"]["reserved_bytes"] = x.simulated->reserved.count;
  }
  j["peak"] = {{"allocated_bytes", x.allocated_peak.count}, {"reserved_bytes", x.reserved_peak.count}};
  j["reasons"] = x.reasons;
  j["ways_out"] = Json::array();
  for (const auto& w : r.ways) {
    j["ways_out"].push_back({{"text", w.text},
                             {"need_bytes", w.need.count},
                             {"fits_by_margin", w.by_margin},
                             {"slower", w.slower ? Json(*w.slower) : Json(nullptr)},
                             {"host_bytes", w.host.count},
                             {"needs", w.needs.empty() ? Json(nullptr) : Json(w.needs)}});
  }
  return j;
}

}  // namespace zplan
