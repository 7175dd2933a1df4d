#include "io/record_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/ds_config_reader.h"
#include "io/json.h"
#include "io/names.h"
#include "io/suggest.h"
#include "spec/error.h"
#include "spec/switch_names.h"

namespace zplan {
namespace {
using nlohmann::json;

void note_unread(const JsonObject& object, std::vector<Note>& notes) {
  for (const std::string& key : object.unread()) {
    notes.push_back({Note::Level::Warning, "record-key-unknown",
                     "The record says \"" + key + "\", which zplan does not know: simulated without it.", ""});
  }
}

Kernels kernels(const JsonObject& workload) {
  Kernels kernels;
  for (const std::string& name : workload.texts("kernels")) {
    if (name == "fused_linear_cross_entropy") kernels.fused_linear_cross_entropy = true;
    else if (name == "rms_norm") kernels.rms_norm = true;
    else if (name == "rope") kernels.rope = true;
    else if (name == "swiglu") kernels.swiglu = true;
    else workload.fail("kernels", "unknown kernel '" + name + "'",
                       "zplan knows fused_linear_cross_entropy, rms_norm, rope and swiglu");
  }
  if (workload.flag_or("fused_loss", false)) kernels.fused_linear_cross_entropy = true;
  return kernels;
}

Workload read_workload(const JsonObject& object, std::vector<Note>& notes) {
  Workload workload;
  workload.seq_len = object.positive("seq_len");
  workload.finetune = finetune_named(object.text_or("finetune", "full"), object.where("finetune"));
  workload.lora_rank = object.positive_or("lora_rank", workload.lora_rank);
  workload.freeze_layers = object.count_or("freeze_layers", 0);
  workload.optimizer = optimizer_named(object.text_or("optimizer", "deepspeed-adamw"), object.where("optimizer"));
  workload.parameter_groups = object.positive_or("parameter_groups", 1);
  workload.recompute = recompute_named(object.text_or("recompute", "none"), object.where("recompute"));
  workload.recompute.impl =
      recompute_impl_named(object.text_or("recompute_impl", "non-reentrant"), object.where("recompute_impl"));
  workload.recompute.offload = object.flag_or("recompute_offload", false);
  workload.attention = attention_named(object.text_or("attention", "sdpa"), object.where("attention"));
  workload.kernels = kernels(object);
  workload.load = load_named(object.text_or("load", "cpu"), object.where("load"));
  workload.attention_mask = object.flag_or("attention_mask", false);
  for (const char* said_elsewhere : {"micro_batch", "grad_accum", "precision", "model_overrides"}) {
    object.ignore(said_elsewhere);
  }
  workload.adapter_autocast = object.flag_or("adapter_autocast", true);
  workload.skipped_steps = object.count_or("skipped_steps", 0);
  workload.lora_dropout = object.number_or("lora_dropout", 0);
  workload.zero_init = object.flag_or("zero_init", true);
  note_unread(object, notes);
  return workload;
}

Versions read_versions(const JsonObject& record, std::vector<Note>& notes) {
  const JsonObject object = record.object("versions");
  Versions versions;
  versions.deepspeed = parse_version(object.text("deepspeed"), object.where("deepspeed"));
  versions.torch = parse_version(object.text("torch"), object.where("torch"));
  versions.transformers = parse_version(object.text("transformers"), object.where("transformers"));
  versions.switches = deepspeed_switches(versions.deepspeed);
  if (!record.has("version_switches")) return versions;
  const JsonObject said = record.object("version_switches");
  for (const SwitchName& known : switch_names) {
    if (said.has(known.name)) versions.switches.*known.member = said.flag(known.name);
  }
  note_unread(said, notes);
  return versions;
}

// The workload repeats what the ds_config says; a record in which they differ was not measured as it says.
void check_batch(const JsonObject& workload, const DsConfig& ds) {
  const auto same = [&](const char* key, std::int64_t in_config) {
    const std::int64_t said = workload.positive_or(key, in_config);
    if (said != in_config) {
      workload.fail(key, std::to_string(said) + ", but the ds_config says " + std::to_string(in_config),
                    "correct one of the two");
    }
  };
  same("micro_batch", ds.train_micro_batch_size_per_gpu);
  same("grad_accum", ds.gradient_accumulation_steps);
  if (ds.torch_autocast) return;  // then `precision` is the module's, which the ds_config does not say
  const std::string precision = workload.text_or("precision", precision_name(ds.precision));
  if (precision != precision_name(ds.precision)) {
    workload.fail("precision", precision + ", but the ds_config says " + precision_name(ds.precision),
                  "correct one of the two");
  }
}

MeasuredPhase read_phase(const JsonObject& object) {
  const auto bytes = [&](const char* key) { return Bytes{object.count_or(key, 0)}; };
  MeasuredPhase phase;
  phase.phase = object.text("phase");
  phase.step = object.count_or("step", -1);
  phase.micro_step = object.count_or("micro_step", -1);
  phase.allocated = {object.count("allocated_bytes")};
  phase.allocated_peak = {object.count("allocated_peak_bytes")};
  phase.reserved = {object.count("reserved_bytes")};
  phase.reserved_peak = {object.count("reserved_peak_bytes")};
  phase.active_peak = bytes("active_peak_bytes");
  phase.inactive_split = bytes("inactive_split_bytes");
  phase.alloc_retries = object.count_or("alloc_retries", 0);
  phase.host_rss = bytes("host_rss_bytes");
  phase.host_rss_peak = bytes("host_rss_peak_bytes");
  phase.host_pinned = bytes("host_pinned_bytes");
  if (object.has("device_used_bytes")) phase.device_used = bytes("device_used_bytes");
  if (object.has("seconds")) phase.seconds = Seconds{object.number("seconds")};
  return phase;
}

std::vector<Seconds> seconds(const JsonObject& record, const char* key) {
  std::vector<Seconds> list;
  if (!record.has(key)) return list;
  const json& value = record.value(key);
  const bool numbers = value.is_array() && std::all_of(value.begin(), value.end(), [](const json& item) {
    return item.is_number() && item.get<double>() >= 0;
  });
  if (!numbers) record.fail(key, "expected a list of seconds", "write [1.5, 1.5]");
  for (const json& item : value) list.push_back({item.get<double>()});
  return list;
}

Cluster read_machine(const JsonObject& object, const Gpu& gpu, std::vector<Note>& notes) {
  Cluster cluster;
  cluster.asked = object.text_or("gpu", gpu.name);
  cluster.nodes = object.positive_or("nodes", 1);
  cluster.node.gpu = gpu;
  cluster.node.gpus = object.positive("gpus");
  cluster.node.interconnect = interconnect_named(object.text_or("interconnect", "pcie"), object.where("interconnect"));
  cluster.node.cpu_cores = object.positive_or("host_cores", 0);
  if (object.has("host_memory_bytes")) cluster.node.host_memory = Bytes{object.positive("host_memory_bytes")};
  note_unread(object, notes);
  return cluster;
}

// {"parameters": bytes, ...}
std::vector<MeasuredComponent> components(const JsonObject& record) {
  std::vector<MeasuredComponent> list;
  if (!record.has("components")) return list;
  const JsonObject said = record.object("components");
  for (const auto& [name, bytes] : record.value("components").items()) list.push_back({name, Bytes{said.count(name)}});
  return list;
}

void read_outcome(const JsonObject& object, Record& record) {
  const std::string outcome = object.text("outcome");
  if (outcome == "oom") record.outcome = Record::Outcome::OutOfMemory;
  else if (outcome != "ok") object.fail("outcome", "'" + outcome + "' is not an outcome", "write ok or oom");
  record.oom_message = object.text_or("oom_message", "");
  const std::string ranks = object.text_or("ranks", "nccl");
  record.run.stand_in = ranks == "fake";
  if (ranks == "fake") record.ranks = Record::Ranks::Fake;
  else if (ranks == "nccl") record.ranks = Record::Ranks::Nccl;
  else object.fail("ranks", "'" + ranks + "' is not a kind of ranks", "write fake or nccl");
  record.optimizer_classes = object.text_or("optimizer_classes", "");
  record.measured_by = object.text_or("measured_by", "");
  for (const JsonObject& phase : object.objects("phases")) record.phases.push_back(read_phase(phase));
  if (record.phases.empty()) object.fail("phases", "no phase was measured", "measure the run again");
  record.components = components(object);
  for (const char* of_no_use_here : {"failure", "losses", "parameters"}) object.ignore(of_no_use_here);
  record.step_seconds = seconds(object, "step_seconds");
  record.loop_step_seconds = seconds(object, "loop_step_seconds");
}

// As many steps as were measured; of a run that ran out of memory, at least the three that reach the steady state.
std::int64_t steps(const Record& record) {
  std::int64_t last = -1;
  for (const MeasuredPhase& phase : record.phases) last = std::max(last, phase.step);
  return record.outcome == Record::Outcome::Ok && last >= 0 ? last + 1 : std::max<std::int64_t>(3, last + 1);
}

void read_run(const JsonObject& object, const Catalog& catalog, const FileSource& files, Record& record) {
  Run& run = record.run;
  run.world_size = object.positive("world_size");
  run.rank = object.count_or("rank", 0);
  if (run.rank >= run.world_size) {
    object.fail("rank", std::to_string(run.rank) + " is not a rank of " + std::to_string(run.world_size),
                "ranks count from 0");
  }
  const JsonObject workload = object.object("workload");
  run.workload = read_workload(workload, record.notes);
  const json overrides = workload.has("model_overrides") ? workload.value("model_overrides") : json::object();
  run.model = model_named(catalog, files, object.text("model"), object.where("model"), overrides);
  run.versions = read_versions(object, record.notes);
  const JsonObject versions = object.object("versions");
  run.gpu = find_gpu(catalog, versions.text("gpu"), versions.where("gpu")).gpu;
  DsContext context;
  context.world_size = run.world_size;
  context.versions = run.versions;
  const DsConfigFile ds = read_ds_config(object.value("ds_config"), object.where("ds_config"), context);
  run.ds = ds.config;
  record.notes.insert(record.notes.end(), ds.notes.begin(), ds.notes.end());
  check_batch(workload, run.ds);
  run.alloc_conf = object.text_or("alloc_conf", "");
  if (object.has("capacity_limit_bytes")) run.capacity_limit = Bytes{object.positive("capacity_limit_bytes")};
  run.cpu_threads = object.maybe_count("cpu_threads");
  if (!run.cpu_threads) run.cpu_threads = versions.maybe_count("threads");
}

}  // namespace

std::vector<RecordText> record_texts(const FileSource& files, const std::string& path) {
  const std::string text = files.read(path);
  if (path.size() < 6 || path.compare(path.size() - 6, 6, ".jsonl") != 0) return {{path, text}};
  std::vector<RecordText> records;
  std::size_t begin = 0, line = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    ++line;
    if (one.find_first_not_of(" \t\r") != std::string::npos) records.push_back({path + ":" + std::to_string(line), one});
    begin = end + 1;
  }
  if (records.empty()) throw InputError(path, "no record in it", "name a file with one record a line");
  return records;
}

std::string record_id(const RecordText& text) {
  const json value = parse_json(text.text, text.where);
  return JsonObject(value, text.where).text_or("id", "");
}

Record read_record(const RecordText& text, const Catalog& catalog, const FileSource& files) {
  const json value = parse_json(text.text, text.where);
  const JsonObject object(value, text.where);
  const std::string schema = object.text("schema");
  if (schema != "zplan.measurement/1") {
    object.fail("schema", "'" + schema + "' is not a measurement record", "name a file of zplan.measurement/1");
  }
  Record record;
  record.id = object.text("id");
  read_outcome(object, record);
  read_run(object, catalog, files, record);
  record.run.steps = steps(record);
  record.run.workload.eval_after =
      std::any_of(record.phases.begin(), record.phases.end(), [](const auto& p) { return p.phase == "eval"; });
  if (object.has("machine")) record.machine = read_machine(object.object("machine"), record.run.gpu, record.notes);
  note_unread(object, record.notes);
  return record;
}

}  // namespace zplan
