#include "io/watch_text.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "io/report_parts.h"
#include "io/text_table.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr std::size_t kBar = 32;

double share(Bytes part, Bytes whole) {
  return whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0;
}

}  // namespace

std::string watch_heading(const Prediction& p) {
  return p.model + (p.strategy.empty() ? "" : ", " + p.strategy) + ": " + text(p.peak()) + " a GPU predicted (" +
         gib(p.reserved) + " for torch's allocator + " + gib(p.outside) + " outside it) of " + text(p.capacity);
}

std::string watch_table(const Watch& watch, const std::string& clock, const TextStyle& style) {
  const Paint paint(style);
  const Prediction& p = watch.prediction();
  std::vector<std::vector<std::string>> rows;
  for (const auto& g : watch.state().gpus) {
    const std::string rank = g.rank ? std::to_string(*g.rank) : "-";
    if (!g.in_job) {
      rows.push_back({std::to_string(g.index), rank, "-", "-", "-", "-", "-", "no process of the job"});
      continue;
    }
    rows.push_back({std::to_string(g.index), rank, gib(g.used), gib(g.peak), gib(p.peak()),
                    percent(share(g.used, g.capacity)), gib(g.headroom()),
                    memory_bar(g.used, g.others, g.capacity, kBar, paint) + "  " +
                        (g.reached.empty() ? "above the prediction" : "as in " + g.reached)});
  }
  std::string out = paint.bold(watch_heading(p)) + "\n" + clock + "\n";
  out += table_text({{"GPU", Align::Right},
                     {"rank", Align::Right},
                     {"used", Align::Right},
                     {"peak", Align::Right},
                     {"predicted", Align::Right},
                     {"share", Align::Right},
                     {"headroom GiB", Align::Right},
                     {"", Align::Left}},
                    rows);
  return out + notes_text(watch.warnings(), paint);
}

std::string watch_line(const Watch& watch) {
  std::string out;
  for (const auto& g : watch.state().gpus) {
    if (!g.in_job) continue;
    out += (out.empty() ? "" : ", ") + ("GPU " + std::to_string(g.index) + " " + text(g.used)) + " (" +
           percent(share(g.used, watch.prediction().peak())) + " of predicted)";
  }
  return out.empty() ? "no process of the job on any GPU" : out;
}

std::string warning_line(const Note& n) { return "warning: " + n.text + " Fix: " + n.fix + "."; }

std::string watch_json_line(const Watch& watch, double time) {
  using Json = nlohmann::ordered_json;
  const WatchState& s = watch.state();
  Json j = {{"schema", "zplan.watch/1"},
            {"time", time},
            {"elapsed_seconds", s.at.count},
            {"predicted_bytes", watch.prediction().peak().count},
            {"gpus", Json::array()}};
  for (const auto& g : s.gpus) {
    j["gpus"].push_back({{"gpu", g.index},
                         {"uuid", g.uuid},
                         {"name", g.name},
                         {"rank", g.rank ? Json(*g.rank) : Json(nullptr)},
                         {"in_job", g.in_job},
                         {"used_bytes", g.used.count},
                         {"peak_bytes", g.peak.count},
                         {"others_bytes", g.others.count},
                         {"capacity_bytes", g.capacity.count},
                         {"headroom_bytes", g.headroom().count},
                         {"reached", g.reached},
                         {"growth_bytes_per_second", g.growth ? g.growth->bytes_per_second : 0.0}});
  }
  j["rank_difference_bytes"] = s.rank_difference.count;
  j["warnings"] = Json::array();
  for (const auto& n : s.fresh) j["warnings"].push_back({{"code", n.code}, {"text", n.text}, {"fix", n.fix}});
  return j.dump() + "\n";
}

}  // namespace zplan
