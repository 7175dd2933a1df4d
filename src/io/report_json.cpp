#include "io/report_json.h"

#include <algorithm>

#include "io/emit.h"
#include "io/names.h"
#include "spec/error.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json optional_bytes(const std::optional<Bytes>& b) { return b ? Json(b->count) : Json(nullptr); }

Json model_json(const Model& m) {
  Json j = {{"name", m.name}, {"model_type", m.model_type}, {"hidden_size", m.hidden}, {"intermediate_size", m.intermediate},
            {"num_hidden_layers", m.layers}, {"num_attention_heads", m.heads}, {"num_key_value_heads", m.kv_heads},
            {"head_dim", m.head_dim}, {"vocab_size", m.vocab}, {"tie_word_embeddings", m.tied_embeddings},
            {"qkv_bias", m.qkv_bias}, {"o_bias", m.o_bias}, {"mlp_bias", m.mlp_bias}, {"qk_norm", m.qk_norm}};
  if (m.experts) {
    j["num_experts"] = m.experts->count;
    j["num_experts_per_tok"] = m.experts->per_token;
    j["moe_intermediate_size"] = m.experts->intermediate;
  }
  return j;
}

Json kernels_json(const Kernels& k) {
  Json j = Json::array();
  if (k.fused_linear_cross_entropy) j.push_back("fused_linear_cross_entropy");
  if (k.rms_norm) j.push_back("rms_norm");
  if (k.rope) j.push_back("rope");
  if (k.swiglu) j.push_back("swiglu");
  return j;
}

Json workload_json(const Run& run) {
  const auto& w = run.workload;
  return {{"seq_len", w.seq_len}, {"micro_batch", run.ds.train_micro_batch_size_per_gpu},
          {"grad_accum", run.ds.gradient_accumulation_steps}, {"finetune", finetune_name(w.finetune)},
          {"lora_rank", w.adapted() ? Json(w.lora_rank) : Json(nullptr)},
          {"precision", precision_name(run.ds.precision)}, {"optimizer", optimizer_name(w.optimizer)},
          {"parameter_groups", w.parameter_groups}, {"attention", attention_name(w.attention)},
          {"recompute", recompute_name(w.recompute)}, {"recompute_impl", recompute_impl_name(w.recompute.impl)},
          {"kernels", kernels_json(w.kernels)}, {"load", load_name(w.load)}};
}

// The whole ds_config. A strategy that the files cannot say (a version too old) is still a strategy.
Json ds_config_json(const Run& run) {
  try {
    return Json::parse(emit_ds_config(run, EmitOptions{}));
  } catch (const InputError& e) {
    return {{"unavailable", e.problem()}};
  }
}

Json inputs_json(const Run& run, const Cluster& cluster) {
  const auto& node = cluster.node;
  return {{"model", model_json(run.model)},
          {"workload", workload_json(run)},
          {"ds_config", ds_config_json(run)},
          {"versions", {{"deepspeed", text(run.versions.deepspeed)}, {"torch", text(run.versions.torch)},
                        {"transformers", text(run.versions.transformers)}}},
          {"alloc_conf", run.alloc_conf},
          {"capacity_limit_bytes", optional_bytes(run.capacity_limit)},
          {"steps", run.steps},
          {"machine", {{"asked", cluster.asked}, {"gpu", run.gpu.name}, {"gpu_memory_bytes", run.gpu.memory_total.count},
                       {"nodes", cluster.nodes}, {"gpus_per_node", node.gpus},
                       {"interconnect", interconnect_name(node.interconnect)},
                       {"host_memory_bytes", optional_bytes(node.host_memory)}, {"nvme_bytes", optional_bytes(node.nvme)},
                       {"cpu_cores", node.cpu_cores}}},
          {"cpu_threads", run.cpu_threads ? Json(*run.cpu_threads) : Json(nullptr)}};
}

// Outside the steps there is no step to name.
void add_step(Json& j, std::int64_t step, std::int64_t micro_step) {
  if (step < 0) return;
  j["step"] = step;
  j["micro_step"] = micro_step;
}

Json phases_json(const Simulation& s) {
  Json out = Json::array();
  for (const auto& p : s.phases) {
    Json j = Json::object();
    add_step(j, p.step, p.micro_step);
    j["phase"] = name(p.phase);
    j["allocated_bytes"] = p.figures.allocated.count;
    j["allocated_peak_bytes"] = p.figures.allocated_peak.count;
    j["reserved_bytes"] = p.figures.reserved.count;
    j["reserved_peak_bytes"] = p.figures.reserved_peak.count;
    j["active_peak_bytes"] = p.figures.active_peak.count;
    j["inactive_split_bytes"] = p.figures.inactive_split.count;
    j["alloc_retries"] = p.figures.alloc_retries;
    j["host_bytes"] = p.host.count;
    j["host_peak_bytes"] = p.host_peak.count;
    j["host_pinned_bytes"] = p.host_pinned.count;
    out.push_back(std::move(j));
  }
  return out;
}

Json moment_json(const Moment& m) {
  Json j = Json::object();
  add_step(j, m.step, m.micro_step);
  j["phase"] = name(m.phase);
  j["event"] = m.event;
  return j;
}

Json components_json(const Peak& peak) {
  Json j = Json::object();
  for (std::size_t i = 0; i < kComponents; ++i) j[kComponentNames[i]] = peak.by_component[i].count;
  j["fragmentation"] = peak.fragmentation().count;
  return j;
}

Json time_json(const StepTime& t, const Run& run) {
  Json parts = Json::object();
  for (std::size_t i = 0; i < time_parts; ++i) {
    const auto part = static_cast<TimePart>(i);
    parts[std::string(name(part))] = t.part(part).count;
  }
  return {{"step_seconds", t.total().count}, {"tokens_per_second_per_gpu", t.tokens_per_second_per_gpu()},
          {"relative_error", t.relative_error}, {"limiter", limiter_text(t, run)}, {"parts", parts}};
}

Json notes_json(const std::vector<Note>& first, const std::vector<Note>& second) {
  Json out = Json::array();
  for (const auto* notes : {&first, &second}) {
    for (const auto& n : *notes) {
      out.push_back({{"level", n.level == Note::Level::Warning ? "warning" : "info"}, {"code", n.code}, {"text", n.text}, {"fix", n.fix}});
    }
  }
  return out;
}

Json assumptions_json(const std::vector<Assumption>& assumptions) {
  Json out = Json::array();
  for (const auto& a : assumptions) out.push_back({{"option", a.option}, {"value", a.value}, {"text", a.text}});
  return out;
}

// The strategy itself: what the user would have to say to get it.
Json strategy_json(const Strategy& s, const Question& q) {
  const Run run = applied(s, q.base);
  return {{"name", name(s)}, {"stage", s.ds.zero.stage}, {"offload", offload_word(offload_of(s.ds.zero))},
          {"micro_batch", s.ds.train_micro_batch_size_per_gpu}, {"grad_accum", s.ds.gradient_accumulation_steps},
          {"recompute", recompute_name(s.workload.recompute)}, {"kernels", kernels_json(s.workload.kernels)},
          {"alloc_conf", run.alloc_conf}, {"departures", departures(s)}, {"ds_config", ds_config_json(run)}};
}

Json plan_entry(const Plan& p, const PlanReport& r) {
  const auto& c = p.candidate;
  const Run run = applied(c.strategy, r.question.base);
  return {{"strategy", strategy_json(c.strategy, r.question)},
          {"peak", {{"allocated_bytes", c.memory.allocated.count}, {"reserved_bytes", c.memory.reserved.count}}},
          {"smallest_capacity_bytes", p.capacity.count},
          {"headroom_bytes", p.headroom.count},
          {"fits", c.fits},
          {"fits_by_margin", c.safe},
          {"oom_probability", p.oom_probability},
          {"host", {{"per_rank_peak_bytes", c.host.total().count},
                    {"per_node_peak_bytes", c.host.total().count * r.question.cluster.node.gpus},
                    {"pinned_bytes", c.host.pinned.count}}},
          {"nvme", {{"bytes", c.nvme.count * r.question.cluster.node.gpus}}},
          {"time", time_json(c.time, run)},
          {"tied_with_fastest", p.tied},
          {"on_pareto_front", p.on_front},
          {"needs", c.strategy.workload.kernels.any() ? Json::array({"liger"}) : Json::array()}};
}

Json change_json(const Change& c) {
  if (c.empty()) return nullptr;
  return {{"text", c.text}, {"need_bytes", c.need.count}, {"slower", c.slower ? Json(*c.slower) : Json(nullptr)}};
}

Json rejection_json(const Rejection& r, const PlanReport& report) {
  Json j = {{"family", r.family}, {"strategy", r.cannot_run.empty() ? strategy_json(r.strategy, report.question) : Json(nullptr)},
            {"rank", r.rank}};
  if (!r.cannot_run.empty()) {
    j["reason"] = "cannot run";
    j["text"] = r.cannot_run;
  } else if (r.fits) {
    j["reason"] = "slower";
    j["slower"] = r.slower;
    j["limiter"] = r.limiter;
  } else {
    j["reason"] = r.host_over.count > 0 ? "host memory" : "device memory";
    j["moment"] = r.moment;
    j["component"] = r.component;
    j["component_bytes"] = r.component_bytes.count;
    j["need_bytes"] = r.need.count;
    j["over_bytes"] = r.over.count;
    j["host_over_bytes"] = r.host_over.count;
  }
  j["change"] = change_json(r.change);
  return j;
}

Json errors_json(const Comparison& c) {
  Json j = Json::object();
  for (std::size_t q = 0; q < kQuantities; ++q) {
    if (c.errors[q]) j[kQuantityNames[q]] = *c.errors[q];
  }
  return j;
}

}  // namespace

Json simulation_json(const SimulationReport& r) {
  const auto& s = r.simulation;
  Json j = {{"schema", "zplan.simulation/1"}, {"zplan_version", r.version}, {"inputs", inputs_json(r.run, r.cluster)},
            {"rank", s.rank}, {"world_size", s.world_size}, {"outcome", s.oom ? "oom" : "ok"}};
  if (s.oom) {
    j["oom"] = moment_json(s.oom->at);
    j["oom"]["requested_bytes"] = s.oom->requested.count;
    j["oom"]["free_bytes"] = s.oom->free.count;
    j["oom"]["allocated_bytes"] = s.oom->allocated.count;
    j["oom"]["reserved_bytes"] = s.oom->reserved.count;
  }
  j["phases"] = phases_json(s);
  j["peak"] = {{"allocated_bytes", s.peak.allocated.count}, {"reserved_bytes", s.peak.reserved.count},
               {"device_bytes", s.device_bytes().count}, {"at", moment_json(s.peak.at)}, {"by_component", components_json(s.peak)}};
  j["smallest_capacity_bytes"] = s.smallest_capacity.count;
  j["outside_allocator_bytes"] = {{"cuda_context", s.outside.cuda_context.count}, {"nccl", s.outside.nccl.count}, {"other", s.outside.other.count}};
  j["device_capacity_bytes"] = s.device_capacity.count;
  j["fits"] = s.fits();
  j["host"] = {{"per_rank_peak_bytes", r.host_peak().count}, {"per_node_peak_bytes", r.host_peak().count * r.cluster.node.gpus},
               {"pinned_bytes", r.host_pinned().count}};
  j["nvme"] = {{"bytes", r.nvme.count}};
  j["time"] = r.time ? time_json(*r.time, r.run) : Json(nullptr);
  if (!r.ranks.empty()) {
    j["ranks"] = Json::array();
    for (const auto& k : r.ranks) {
      j["ranks"].push_back({{"rank", k.rank}, {"outcome", k.oom ? "oom" : "ok"}, {"allocated_peak_bytes", k.allocated.count},
                            {"reserved_peak_bytes", k.reserved.count}, {"smallest_capacity_bytes", k.capacity.count}});
    }
  }
  j["assumptions"] = assumptions_json(r.assumptions);
  j["notes"] = notes_json(r.notes, s.notes);
  return j;
}

Json plan_json(const PlanReport& r) {
  Json j = {{"schema", "zplan.plan/1"}, {"zplan_version", r.version}, {"inputs", inputs_json(r.question.base, r.question.cluster)},
            {"global_batch", r.question.global_batch}};
  j["inputs"].erase("ds_config");  // what the search chooses
  j["inputs"]["workload"].erase("micro_batch");
  j["inputs"]["workload"].erase("grad_accum");
  j["inputs"]["workload"].erase("recompute");
  if (r.plans.empty()) {
    j["best"] = nullptr;
  } else {
    j["best"] = plan_entry(r.plans.front(), r);
    j["best"]["files"] = r.files;
    j["best"]["simulation"] = simulation_json(*r.best);
    j["best"]["settings"] = Json::array();
    for (const auto& s : r.reasons) {
      j["best"]["settings"].push_back({{"setting", s.setting}, {"needed", s.needed}, {"reserved_without_bytes", s.reserved.count},
                                       {"allocated_without_bytes", s.allocated.count}, {"time_ratio_without", s.time_ratio}});
    }
  }
  j["alternatives"] = Json::array();
  for (std::size_t i = 1; i < r.plans.size(); ++i) j["alternatives"].push_back(plan_entry(r.plans[i], r));
  j["with_packages"] = Json::array();
  for (const auto& p : r.with_kernels) j["with_packages"].push_back(plan_entry(p, r));
  j["rejected"] = Json::array();
  for (const auto& x : r.rejected) j["rejected"].push_back(rejection_json(x, r));
  j["what_would_fit"] = Json::array();
  for (const auto& c : r.changes) j["what_would_fit"].push_back(change_json(c));
  const auto& n = r.result.counts;
  j["searched"] = {{"strategies", n.strategies}, {"discarded_by_bound", n.discarded_by_bound}, {"discarded_by_host_memory", n.discarded_by_host},
                   {"discarded_by_time", n.discarded_by_time}, {"simulated", n.simulated}, {"families", n.families},
                   {"families_tried", n.families_tried}, {"seconds", r.seconds}};
  j["assumptions"] = assumptions_json(r.assumptions);
  j["notes"] = notes_json(r.notes, {});
  return j;
}

Json comparison_json(const ComparisonReport& r) {
  Json j = {{"schema", "zplan.comparison/1"}, {"zplan_version", r.version}, {"runs", Json::array()}};
  for (const auto& c : r.runs) {
    Json run = {{"id", c.id}};
    if (c.simulation) {
      SimulationReport s;
      s.version = r.version;
      s.run = c.run;
      s.cluster.node.gpu = c.run.gpu;
      s.cluster.node.gpus = c.run.world_size;
      s.simulation = *c.simulation;
      s.time = c.time;
      run["simulation"] = simulation_json(s);
      run["errors"] = errors_json(c);
      run["outcome_right"] = c.outcome_right ? Json(*c.outcome_right) : Json(nullptr);
    } else {
      run["error"] = c.error;
    }
    j["runs"].push_back(std::move(run));
  }
  Json summary = Json::object();
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const auto& s = r.summary.quantities[q];
    if (s.runs == 0) continue;
    summary[kQuantityNames[q]] = {{"runs", s.runs}, {"mean", s.mean}, {"median", s.median}, {"bias", s.bias}, {"worst", s.worst}, {"worst_id", s.worst_id}};
  }
  summary["outcomes"] = {{"right", r.summary.outcomes_right}, {"wrong", r.summary.outcomes_wrong}, {"wrong_ids", r.summary.wrong}};
  summary["failed"] = r.summary.failed;
  j["summary"] = summary;
  j["exceeded"] = r.exceeded;
  return j;
}

}  // namespace zplan
