#include "run/arguments.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "io/catalog.h"
#include "io/ds_config_reader.h"
#include "io/json.h"
#include "io/names.h"
#include "io/record_reader.h"
#include "spec/error.h"

namespace zplan::trainer {
namespace {

using nlohmann::json;

constexpr Version kMirrored{0, 19, 6};  // the DeepSpeed whose engines validate/zero follows

struct Options {
  std::string model = "qwen3-0.6b", ds_config, like, precision = "bf16", recompute = "none",
              recompute_impl = "non-reentrant";
  std::string load = "cpu", capacity, device = "cuda", rehearse, alloc_conf;
  std::int64_t seq_len = 1024, micro_batch = 1, grad_accum = 1, world = 1, rank = 0, steps = 5,
               layers = 0;
  int stage = 2;
  bool offload_optimizer = false, offload_param = false;
  double lr = 1e-5;
};

void declare(CLI::App& app, Options& o, Plan& plan) {
  app.add_option("--like", o.like,
                 "take every input from a measurement record (zplan.measurement/1)");
  app.add_option("--model", o.model,
                 "a name in models/, or the path of a config.json (default qwen3-0.6b)");
  app.add_option("--layers", o.layers, "build only this many layers (default: the model's)");
  app.add_option(
      "--ds-config", o.ds_config,
      "a ds_config.json without \"auto\"; without it one is made from the options below");
  app.add_option("--stage", o.stage, "ZeRO stage (default 2)");
  app.add_flag("--offload-optimizer", o.offload_optimizer,
               "optimizer states and step in host memory");
  app.add_flag("--offload-param", o.offload_param, "stage 3: parameters in host memory");
  app.add_option("--precision", o.precision, "bf16, fp16 or fp32 (default bf16)");
  app.add_option("--micro-batch", o.micro_batch, "sequences of one forward on one GPU (default 1)");
  app.add_option("--grad-accum", o.grad_accum, "micro-steps of one optimizer step (default 1)");
  app.add_option("--seq-len", o.seq_len, "tokens of a sequence (default 1024)");
  app.add_option("--recompute", o.recompute,
                 "activation checkpointing: none, full or every-N (default none)");
  app.add_option("--recompute-impl", o.recompute_impl,
                 "non-reentrant or reentrant (default non-reentrant)");
  app.add_option("--load", o.load, "where stages 0-2 load the weights: cpu or gpu (default cpu)");
  app.add_option("--world", o.world, "ranks (default 1)");
  app.add_option("--rank", o.rank, "with --stand-in: which rank to play (default 0)");
  app.add_flag("--stand-in", plan.stand_in,
               "play one rank of --world on one GPU; the other ranks are played by buffers");
  app.add_option("--steps", o.steps, "optimizer steps, each phase measured (default 5)");
  app.add_option("--timed-steps", plan.timed_steps,
                 "whole steps timed without a synchronisation inside (default 0)");
  app.add_option("--lr", o.lr, "learning rate, where the ds_config names none (default 1e-5)");
  app.add_option("--seed", plan.seed, "of the random weights and the synthetic corpus (default 1)");
  app.add_option("--tokens", plan.tokens,
                 "token ids to train on: 2 or 4 bytes each by vocabulary (default: synthetic)");
  app.add_option("--weights", plan.weights,
                 "folder with the model's .safetensors (default: random weights)");
  app.add_option("--capacity", o.capacity,
                 "limit of torch's allocator, e.g. 37.5GiB: try another card's size");
  app.add_option("--alloc-conf", o.alloc_conf, "PYTORCH_CUDA_ALLOC_CONF");
  app.add_option("--out", plan.out, "the record (default measurements.json)");
  app.add_option("--monitor", plan.monitor,
                 "also write Prometheus text here, for node_exporter's textfile collector");
  app.add_option("--id", plan.id, "the record's id (default validate)");
  app.add_flag("--profile", plan.profile, "measure rates of the machine before the run");
  app.add_flag("--profile-only", plan.profile_only, "measure rates only, in under a minute");
  app.add_option("--device", o.device,
                 "cuda, or cpu to try the program without a GPU (default cuda)");
  app.add_option("--timeout", plan.timeout_s,
                 "seconds a rank may wait for the others or stay in one phase (default 600)");
  app.add_option("--rehearse", o.rehearse,
                 "act out a failure: WHAT@RANK:PHASE:STEP, WHAT one of die, throw, hang, oom");
}

Bytes parse_size(const std::string& text, const std::string& where) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  const std::string unit = text.substr(used);
  const double scale = unit == "GiB"   ? 1073741824.0
                       : unit == "MiB" ? 1048576.0
                       : unit.empty()  ? 1.0
                                       : 0.0;
  if (value <= 0 || scale == 0)
    throw InputError(where, "'" + text + "' is not a size", "write it as 37.5GiB, 512MiB or bytes");
  return {static_cast<std::int64_t>(value * scale)};
}

Rehearsal parse_rehearsal(const std::string& text) {
  char what[16] = {}, phase[16] = {};
  long long step = -1;
  Rehearsal r;
  const int got =
      std::sscanf(text.c_str(), "%15[a-z]@%d:%15[a-z]:%lld", what, &r.rank, phase, &step);
  r.step = step;
  bool known = got >= 3;
  const std::string w = what;
  if (w == "die")
    r.what = Rehearsal::What::Die;
  else if (w == "throw")
    r.what = Rehearsal::What::Throw;
  else if (w == "hang")
    r.what = Rehearsal::What::Hang;
  else if (w == "oom")
    r.what = Rehearsal::What::OutOfMemory;
  else
    known = false;
  bool phase_known = false;
  for (const Phase p :
       {Phase::Start, Phase::Load, Phase::Init, Phase::Forward, Phase::Backward, Phase::Step}) {
    if (zplan::trainer::text(p) == phase) r.phase = p, phase_known = true;
  }
  if (!known || !phase_known) {
    throw InputError("--rehearse", "'" + text + "' is not a failure",
                     "write it as die@1:backward:2, with die, throw, hang or oom");
  }
  return r;
}

// Learning rate and the rest, which the simulator's ds_config does not need.
AdamSettings adam_of(const json& ds, double lr) {
  AdamSettings adam;
  adam.lr = lr;
  const json none = json::object();
  const json& params = ds.contains("optimizer") ? ds["optimizer"].value("params", none) : none;
  try {
    adam.lr = params.value("lr", adam.lr);
    adam.eps = params.value("eps", adam.eps);
    adam.weight_decay = params.value("weight_decay", adam.weight_decay);
    if (params.contains("betas")) {
      adam.beta1 = params["betas"].at(0).get<double>();
      adam.beta2 = params["betas"].at(1).get<double>();
    }
  } catch (const json::exception&) {
    throw InputError("ds_config:/optimizer/params", "a value is not a number",
                     "give lr, betas, eps and weight_decay as numbers");
  }
  return adam;
}

void read_like(const Options& o, const Catalog& catalog, const FileSource& files, Plan& plan) {
  const std::vector<RecordText> records = record_texts(files, o.like);
  if (records.size() != 1) {
    throw InputError(o.like, "holds " + std::to_string(records.size()) + " records",
                     "give a file with one record");
  }
  plan.run = read_record(records.front(), catalog, files).run;
  const json record = parse_json(records.front().text, o.like);
  plan.model_name = record.at("model").get<std::string>();
  const json& workload = record.at("workload");
  if (workload.contains("model_overrides"))
    plan.model_overrides = workload["model_overrides"].dump();
  plan.ds_config = record.at("ds_config").dump();
}

void read_options(const Options& o, const Catalog& catalog, const FileSource& files, Plan& plan) {
  Run& run = plan.run;
  plan.model_name = o.model;
  json overrides = json::object();
  if (o.layers > 0) overrides["num_hidden_layers"] = o.layers;
  plan.model_overrides = overrides.dump();
  run.model = model_named(catalog, files, o.model, "--model", overrides);
  run.workload.seq_len = o.seq_len;
  run.workload.recompute = recompute_named(o.recompute, "--recompute");
  run.workload.recompute.impl = recompute_impl_named(o.recompute_impl, "--recompute-impl");
  run.workload.load = load_named(o.load, "--load");
  run.versions = default_versions();
  run.world_size = o.world;
  run.alloc_conf = o.alloc_conf;
  if (!o.capacity.empty()) run.capacity_limit = parse_size(o.capacity, "--capacity");
  plan.ds_config =
      o.ds_config.empty()
          ? default_ds_config(run.model, o.stage, precision_named(o.precision, "--precision"),
                              o.offload_optimizer, o.offload_param, o.micro_batch, o.grad_accum)
          : files.read(o.ds_config);
  DsContext context;
  context.world_size = o.world;
  context.versions = run.versions;
  run.ds = read_ds_config(plan.ds_config, o.ds_config.empty() ? "ds_config" : o.ds_config, context)
               .config;
  plan.ds_config = parse_json(plan.ds_config, o.ds_config, Comments::Skipped).dump();
}

// Of a config.json these two change values, not sizes, and the planner does not keep them.
void read_constants(const Options& o, const FileSource& files, Plan& plan) {
  std::string path = o.model;
  if (files.exists(path + "/config.json")) path += "/config.json";
  if (!files.exists(path)) return;
  const json config = json::parse(files.read(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return;
  const auto number = [&](const char* key, double& value) {
    if (config.contains(key) && config[key].is_number()) value = config[key].get<double>();
  };
  number("rms_norm_eps", plan.norm_eps);
  number("rope_theta", plan.rope_theta);
}

void check(const Options& o, const Plan& plan) {
  const Run& run = plan.run;
  const std::string probe = "measure it with the DeepSpeed probe, or choose what this trainer runs";
  if (run.workload.finetune != Finetune::Full)
    throw InputError("--like", "only full fine-tuning is built into zplan-validate", probe);
  if (run.workload.attention != Attention::Sdpa)
    throw InputError("--like", "only sdpa attention is built into zplan-validate", probe);
  if (run.workload.kernels.any())
    throw InputError("--like", "Liger kernels are not built into zplan-validate", probe);
  if (run.workload.optimizer != OptimizerKind::DeepSpeedAdam)
    throw InputError("--like", "only DeepSpeed's Adam is built into zplan-validate", probe);
  if (run.world_size < 1 || o.steps < 0 || run.workload.seq_len < 2) {
    throw InputError("zplan-validate", "--world, --steps and --seq-len must be positive",
                     "check the numbers");
  }
  if (run.rank < 0 || run.rank >= run.world_size) {
    throw InputError(
        "--rank", std::to_string(run.rank) + " is not a rank of " + std::to_string(run.world_size),
        "ranks count from 0");
  }
}

}  // namespace

Parsed parse_arguments(int argc, const char* const* argv, const std::string& data) {
  Options o;
  Parsed parsed;
  Plan& plan = parsed.plan;
  CLI::App app{"zplan-validate: a short real fine-tune that measures what zplan predicts",
               "zplan-validate"};
  app.set_version_flag("--version", ZPLAN_VERSION);
  declare(app, o, plan);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    parsed.exit = app.exit(e) == 0 ? 0 : 2;
    return parsed;
  }
  const DiskFiles files;
  const Catalog catalog = load_catalog(files, data);
  if (o.like.empty())
    read_options(o, catalog, files, plan);
  else
    read_like(o, catalog, files, plan);
  read_constants(o, files, plan);
  plan.run.versions.deepspeed = kMirrored;
  plan.run.versions.switches = deepspeed_switches(kMirrored);
  plan.run.steps = o.steps;
  if (o.like.empty() || app.count("--rank") > 0) plan.run.rank = plan.stand_in ? o.rank : 0;
  plan.adam = adam_of(json::parse(plan.ds_config), o.lr);
  if (o.device != "cuda" && o.device != "cpu")
    throw InputError("--device", "'" + o.device + "' is not a device", "use cuda or cpu");
  plan.cuda = o.device == "cuda";
  if (!o.rehearse.empty()) plan.rehearsal = parse_rehearsal(o.rehearse);
  plan.ranks_here = plan.stand_in ? 1 : static_cast<int>(plan.run.world_size);
  check(o, plan);
  return parsed;
}

std::string default_ds_config(const Model& model, int stage, Precision precision,
                              bool offload_optimizer, bool offload_param, std::int64_t micro_batch,
                              std::int64_t grad_accum) {
  json zero = {{"stage", stage}, {"overlap_comm", true}, {"contiguous_gradients", true}};
  if (stage == 3) {
    zero["reduce_bucket_size"] = hf_reduce_bucket_size(model.hidden);
    zero["stage3_prefetch_bucket_size"] = hf_prefetch_bucket_size(model.hidden);
    zero["stage3_param_persistence_threshold"] = hf_persistence_threshold(model.hidden);
    zero["sub_group_size"] = 1'000'000'000;
    zero["stage3_max_live_parameters"] = 1'000'000'000;
    zero["stage3_max_reuse_distance"] = 1'000'000'000;
  } else {
    zero["reduce_bucket_size"] = 200'000'000;
    zero["allgather_bucket_size"] = 200'000'000;
  }
  if (offload_optimizer) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  if (offload_param) zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  json ds = {{"train_micro_batch_size_per_gpu", micro_batch},
             {"gradient_accumulation_steps", grad_accum},
             {"gradient_clipping", 1.0},
             {"zero_optimization", zero}};
  if (precision == Precision::Bf16) ds["bf16"] = {{"enabled", true}};
  if (precision == Precision::Fp16) ds["fp16"] = {{"enabled", true}};
  return ds.dump();
}

}  // namespace zplan::trainer
