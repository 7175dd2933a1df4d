#include "io/prometheus.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace zplan {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\') out += "\\\\";
    else if (c == '"') out += "\\\"";
    else if (c == '\n') out += "\\n";
    else out += c;
  }
  return out;
}

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}
std::string number(std::int64_t value) { return std::to_string(value); }
std::string number(Bytes value) { return std::to_string(value.count); }

class Metric {
 public:
  Metric(std::string& out, const std::string& name, const char* type, const char* help) : out_(out), name_(name) {
    out_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  template <typename Value>
  void add(const Labels& labels, Value value) {
    out_ += name_;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      out_ += (i == 0 ? "{" : ",") + labels[i].first + "=\"" + escaped(labels[i].second) + "\"";
    }
    out_ += (labels.empty() ? " " : "} ") + number(value) + "\n";
  }

 private:
  std::string& out_;
  std::string name_;
};

Labels labels_of(const GpuState& g) {
  Labels labels = {{"gpu", std::to_string(g.index)}, {"uuid", g.uuid}};
  if (g.rank) labels.emplace_back("rank", std::to_string(*g.rank));
  return labels;
}

}  // namespace

std::string prometheus_text(const Watch& watch, const std::string& version) {
  std::string out;
  const Prediction& p = watch.prediction();
  const auto& gpus = watch.state().gpus;
  const auto of_gpus = [&](const char* name, const char* help, bool job_only, auto value) {
    Metric m(out, name, "gauge", help);
    for (const auto& g : gpus) {
      if (g.in_job || !job_only) m.add(labels_of(g), value(g));
    }
  };
  of_gpus("zplan_gpu_memory_used_bytes", "Device memory the job uses now, as the driver counts it.", true,
          [](const GpuState& g) { return g.used; });
  of_gpus("zplan_gpu_memory_peak_bytes", "Highest use by the job since the watch began.", true,
          [](const GpuState& g) { return g.peak; });
  of_gpus("zplan_gpu_memory_predicted_bytes", "Predicted highest use: torch's allocator and what lies outside it.",
          true, [&](const GpuState&) { return p.peak(); });
  of_gpus("zplan_gpu_memory_other_bytes", "Device memory used by others than the job.", false,
          [](const GpuState& g) { return g.others; });
  of_gpus("zplan_gpu_memory_capacity_bytes", "Device memory a process can have.", false,
          [](const GpuState& g) { return g.capacity; });
  of_gpus("zplan_gpu_memory_headroom_bytes", "Capacity less the job's peak and what others use.", true,
          [](const GpuState& g) { return g.headroom(); });
  of_gpus("zplan_gpu_memory_growth_bytes_per_second", "Growth over steps; 0 while there is none.", true,
          [](const GpuState& g) { return g.growth ? g.growth->bytes_per_second : 0.0; });
  {
    Metric m(out, "zplan_predicted_phase_bytes", "gauge",
             "Predicted highest device memory of each phase of the run.");
    for (const auto& c : p.curve)
      m.add({{"step", c.step < 0 ? "" : std::to_string(c.step)}, {"phase", c.phase}}, c.peak);
  }
  Metric(out, "zplan_predicted_margin_bytes", "gauge",
         "Error of the prediction; use above predicted plus margin is a warning.")
      .add({}, p.margin());
  Metric(out, "zplan_rank_difference_bytes", "gauge", "Highest peak of the job's GPUs less the lowest.")
      .add({}, watch.state().rank_difference);
  if (p.rank_difference) {
    Metric(out, "zplan_rank_difference_predicted_bytes", "gauge", "The same, predicted.").add({}, *p.rank_difference);
  }
  {
    Metric m(out, "zplan_warnings_total", "counter", "Warnings given, by code; each once a GPU.");
    for (const auto& code : Watch::codes()) {
      m.add({{"code", code}},
            static_cast<std::int64_t>(std::count_if(watch.warnings().begin(), watch.warnings().end(),
                                                    [&](const Note& n) { return n.code == code; })));
    }
  }
  Metric(out, "zplan_samples_total", "counter", "Samples taken of all GPUs.").add({}, watch.samples());
  Metric(out, "zplan_info", "gauge", "What is watched; always 1.")
      .add({{"version", version}, {"model", p.model}, {"strategy", p.strategy}, {"gpu_name", p.gpu}},
           std::int64_t{1});
  return out;
}

}  // namespace zplan
