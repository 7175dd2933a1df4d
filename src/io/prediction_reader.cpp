#include "io/prediction_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "spec/error.h"

namespace zplan {
namespace {

std::vector<CurvePoint> curve_of(const JsonObject& simulation, Bytes outside) {
  std::vector<CurvePoint> curve;
  for (const auto& p : simulation.objects("phases")) {
    CurvePoint point;
    point.phase = p.text("phase");
    point.step = p.has("step") ? p.count("step") : -1;
    point.peak = Bytes{p.count("reserved_peak_bytes")} + outside;
    point.end = Bytes{p.count("reserved_bytes")} + outside;
    if (point.phase == "start") continue;
    const auto same = std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& c) {
      return c.step == point.step && c.phase == point.phase;
    });
    if (same == curve.end()) {
      curve.push_back(point);
    } else {
      same->peak = std::max(same->peak, point.peak);
      same->end = point.end;
    }
  }
  return curve;
}

// Stages 0 and 3 cut every tensor the same way for all ranks. In 1 and 2 the simulations of several ranks say it.
std::optional<Bytes> rank_difference(const JsonObject& simulation) {
  const auto ranks = simulation.objects("ranks");
  if (!ranks.empty()) {
    Bytes most, least{std::int64_t{1} << 62};
    for (const auto& r : ranks) {
      const Bytes reserved{r.count("reserved_peak_bytes")};
      most = std::max(most, reserved);
      least = std::min(least, reserved);
    }
    return most - least;
  }
  const JsonObject ds = simulation.object("inputs").object("ds_config");
  const auto stage = ds.has("zero_optimization") ? ds.object("zero_optimization").count_or("stage", 0) : 0;
  if (stage == 0 || stage == 3) return Bytes{};
  return std::nullopt;
}

Prediction prediction_of(const JsonObject& s) {
  if (s.text("outcome") != "ok") {
    s.fail("outcome", "the simulated run does not complete", "give a plan that fits, or simulate without --capacity");
  }
  Prediction p;
  const JsonObject inputs = s.object("inputs"), machine = inputs.object("machine"),
                   outside = s.object("outside_allocator_bytes");
  p.model = inputs.object("model").text("name");
  p.gpu = machine.text("gpu");
  p.gpus_per_node = machine.positive("gpus_per_node");
  p.capacity = Bytes{s.positive("device_capacity_bytes")};
  p.reserved = Bytes{s.object("peak").positive("reserved_bytes")};
  for (const char* part : {"cuda_context", "nccl", "other"}) p.outside += Bytes{outside.count(part)};
  if (s.has("time")) p.step = Seconds{s.object("time").number("step_seconds")};
  p.curve = curve_of(s, p.outside);
  p.rank_difference = rank_difference(s);
  return p;
}

}  // namespace

Prediction read_prediction(const FileSource& files, const std::string& path) {
  const nlohmann::json root = parse_json(files.read(path), path);
  const JsonObject object(root, path);
  const std::string schema = object.text("schema");
  if (schema == "zplan.simulation/1") return prediction_of(object);
  if (schema != "zplan.plan/1") {
    object.fail("schema", "'" + schema + "' is no prediction",
                "give the plan.json of `zplan plan`, or what `zplan simulate --json` printed");
  }
  if (!object.has("best")) {
    object.fail("best", "nothing fits in this plan",
                "give a plan that fits, or what `zplan simulate --json` printed for the job");
  }
  const JsonObject best = object.object("best");
  Prediction p = prediction_of(best.object("simulation"));
  p.strategy = best.object("strategy").text("name");
  return p;
}

}  // namespace zplan
