#include "cli/run_options.h"

#include <algorithm>

#include "cli/local_gpus.h"
#include "cli/profile_option.h"
#include "io/gpus_option.h"
#include "io/names.h"
#include "io/record_reader.h"
#include "io/sizes.h"
#include "spec/error.h"
#include "units/text.h"

namespace zplan {
namespace {

// Collects what was not said.
class Assumptions {
 public:
  explicit Assumptions(std::vector<Assumption>& list) : list_(list) {}
  template <typename Value>
  Value or_else(const std::optional<Value>& said, Value assumed, const char* option, const std::string& text) {
    if (said) return *said;
    list_.push_back({option, word(assumed), text});
    return assumed;
  }
  std::string or_else(const std::string& said, const std::string& assumed, const char* option, const std::string& text) {
    if (!said.empty()) return said;
    list_.push_back({option, assumed, text});
    return assumed;
  }

 private:
  static std::string word(std::int64_t n) { return std::to_string(n); }
  std::vector<Assumption>& list_;
};

void need_positive(const std::optional<std::int64_t>& value, const char* option) {
  if (value && *value <= 0) {
    throw InputError(option, std::to_string(*value) + " is not a positive number", "write 1 or more");
  }
}

void check_numbers(const RunOptions& o) {
  need_positive(o.seq_len, "--seq-len");
  need_positive(o.global_batch, "--global-batch");
  need_positive(o.micro_batch, "--micro-batch");
  need_positive(o.grad_accum, "--grad-accum");
  need_positive(o.lora_rank, "--lora-rank");
  need_positive(o.freeze_layers, "--freeze-layers");
  need_positive(o.steps, "--steps");
}

// "0.19" and "5" mean the version zplan knows best that begins so.
Version version_said(const std::string& text, const Version& known, const char* option) {
  const Version said = parse_version(text, option);
  const auto parts = std::count(text.begin(), text.end(), '.') + 1;
  const bool same_major = said.major == known.major;
  const bool same_minor = parts < 2 || said.minor == known.minor;
  return parts < 3 && same_major && same_minor ? known : said;
}

Versions versions(const RunOptions& o, Assumptions& assumed) {
  const Versions known = default_versions();
  Versions v;
  v.deepspeed = version_said(assumed.or_else(o.deepspeed, text(known.deepspeed), "--deepspeed", "DeepSpeed's version"),
                             known.deepspeed, "--deepspeed");
  v.torch = version_said(assumed.or_else(o.torch, text(known.torch), "--torch", "PyTorch's version"), known.torch,
                         "--torch");
  v.transformers = version_said(
      assumed.or_else(o.transformers, text(known.transformers), "--transformers", "transformers' version"),
      known.transformers, "--transformers");
  v.switches = deepspeed_switches(v.deepspeed);
  return v;
}

// bf16 needs tensor cores of compute capability 8.0: below it DeepSpeed refuses ("Type bf16 is not supported").
Precision precision(const RunOptions& o, const Gpu& gpu, Assumptions& assumed) {
  const std::string assumed_name = gpu.bf16 ? "bf16" : "fp16";
  const std::string why = gpu.bf16 ? "16-bit training in bf16" : "16-bit training in fp16: the " + gpu.name + " has no bf16";
  const Precision p = precision_named(assumed.or_else(o.precision, assumed_name, "--precision", why), "--precision");
  if (p == Precision::Bf16 && !gpu.bf16) {
    throw InputError("--precision", "the " + gpu.name + " does not do bf16", "use fp16");
  }
  return p;
}

Workload workload(const RunOptions& o, Purpose purpose, Assumptions& assumed) {
  Workload w;
  w.seq_len = assumed.or_else(o.seq_len, std::int64_t{2048}, "--seq-len", "tokens a sequence");
  w.finetune = finetune_named(assumed.or_else(o.finetune, "full", "--finetune", "every weight is trained"), "--finetune");
  if (w.adapted()) {
    w.lora_rank = assumed.or_else(o.lora_rank, std::int64_t{16}, "--lora-rank", "rank of the adapters on every linear");
  } else if (o.lora_rank) {
    throw InputError("--lora-rank", "there are no adapters in --finetune " + finetune_name(w.finetune),
                     "add --finetune lora or qlora");
  }
  if (w.finetune == Finetune::Freeze) {
    if (!o.freeze_layers) throw InputError("--finetune freeze", "how many layers are frozen is not said", "add --freeze-layers N");
    w.freeze_layers = *o.freeze_layers;
  } else if (o.freeze_layers) {
    throw InputError("--freeze-layers", "nothing is frozen in --finetune " + finetune_name(w.finetune),
                     "add --finetune freeze");
  }
  w.attention = attention_named(assumed.or_else(o.attention, "sdpa", "--attention", "torch's scaled_dot_product_attention"),
                                "--attention");
  w.kernels.fused_linear_cross_entropy = o.fused_loss;
  if (purpose != Purpose::Plan || !o.recompute.empty()) {
    w.recompute = recompute_named(assumed.or_else(o.recompute, "none", "--recompute", "no activation checkpointing"),
                                  "--recompute");
    if (w.recompute.any()) {
      w.recompute.impl = recompute_impl_named(o.recompute_impl.empty() ? "non-reentrant" : o.recompute_impl,
                                              "--recompute-impl");
    }
  }
  return w;
}

// The optimizer of the ds_config wins over the script's (the Trainer passes a DummyOptim then). Without one the
// Trainer makes torch's fused AdamW with two parameter groups, for which accelerate puts DeepSpeedCPUAdam when the
// optimizer is offloaded and zero_force_ds_cpu_optimizer is on.
void choose_optimizer(const RunOptions& o, RunInputs& in, Assumptions& assumed) {
  Workload& w = in.run.workload;
  const bool block = !in.ds_config || !in.ds_config->optimizer_type.empty();
  if (in.ds_config && block) {
    const std::string& type = in.ds_config->optimizer_type;
    if (type != "adam" && type != "adamw") {
      throw InputError(o.ds_config + ":/optimizer/type", "'" + type + "' is not simulated", "use AdamW");
    }
    w.optimizer = in.ds_config->torch_adam ? OptimizerKind::TorchAdamForeach : OptimizerKind::DeepSpeedAdam;
    if (!o.optimizer.empty() && optimizer_named(o.optimizer, "--optimizer") != w.optimizer) {
      in.notes.push_back({Note::Level::Warning, "optimizer-of-ds-config",
                          "The ds_config's optimizer wins over --optimizer " + o.optimizer + ".",
                          "remove \"optimizer\" from the file, or the option"});
    }
    return;
  }
  const char* usual = block ? "deepspeed-adamw" : "torch-adamw-fused";
  const char* text = block ? "DeepSpeed's AdamW: FusedAdam on the GPU, DeepSpeedCPUAdam when offloaded"
                           : "the Trainer's optimizer, as the ds_config has none";
  w.optimizer = optimizer_named(assumed.or_else(o.optimizer, usual, "--optimizer", text), "--optimizer");
  if (w.optimizer == OptimizerKind::DeepSpeedAdam) return;
  w.parameter_groups = 2;
  if (in.ds_config && in.run.ds.zero.stage > 0 && in.run.ds.zero.offload_optimizer.device != OffloadDevice::None) {
    if (!in.run.ds.zero_force_ds_cpu_optimizer) return;
    in.notes.push_back({Note::Level::Warning, "optimizer-swapped",
                        "With the optimizer on the CPU accelerate replaces " + optimizer_name(w.optimizer) +
                            " by DeepSpeedCPUAdam.",
                        "write an AdamW optimizer into the ds_config, so that it is seen"});
    w.optimizer = OptimizerKind::DeepSpeedAdam;
  }
}

// global = micro x accumulation x ranks, as far as they are said.
void settle_batch(const RunOptions& o, Purpose purpose, RunInputs& in, Assumptions& assumed) {
  const std::int64_t world = in.run.world_size;
  in.micro_batch = o.micro_batch;
  in.grad_accum = o.grad_accum;
  in.global_batch = o.global_batch;
  if (o.micro_batch && o.grad_accum) {
    const std::int64_t product = *o.micro_batch * *o.grad_accum * world;
    if (o.global_batch && *o.global_batch != product) {
      throw InputError("--global-batch", std::to_string(*o.global_batch) + " is not micro-batch " +
                           std::to_string(*o.micro_batch) + " x accumulation " + std::to_string(*o.grad_accum) + " x " +
                           std::to_string(world) + " ranks",
                       "leave one of the three out, or use --global-batch " + std::to_string(product));
    }
    in.global_batch = product;
    return;
  }
  const std::int64_t unit = world * o.micro_batch.value_or(1) * o.grad_accum.value_or(1);
  if (!in.global_batch && purpose == Purpose::Plan) {
    // 64, or the nearest multiple above where the ranks do not divide it.
    in.global_batch = assumed.or_else(std::optional<std::int64_t>(), round_up(64, unit), "--global-batch",
                                      "sequences a step over all ranks");
  }
  if (!in.global_batch) return;
  if (*in.global_batch % unit != 0) {
    const std::int64_t below = *in.global_batch / unit * unit;
    const std::string near = below > 0 ? std::to_string(below) + " or " + std::to_string(below + unit) : std::to_string(unit);
    throw InputError("--global-batch",
                     std::to_string(*in.global_batch) + " cannot be divided among " + std::to_string(world) + " ranks" +
                         (unit != world ? " with the micro-batch or accumulation asked for" : ""),
                     "use a multiple of " + std::to_string(unit) + ", such as " + near);
  }
  if (o.micro_batch) in.grad_accum = *in.global_batch / unit;
  if (o.grad_accum) in.micro_batch = *in.global_batch / unit;
}

void read_ds(const RunOptions& o, const FileSource& files, RunInputs& in) {
  DsContext context;
  context.world_size = in.run.world_size;
  context.versions = in.run.versions;
  context.hf = HfArguments{in.run.model.hidden, in.micro_batch, in.grad_accum, std::nullopt, std::nullopt};
  if (!o.precision.empty()) context.hf->precision = precision_named(o.precision, "--precision");
  else context.hf->precision_if_auto = in.run.gpu.bf16 ? Precision::Bf16 : Precision::Fp16;
  in.ds_config = read_ds_config(files.read(o.ds_config), o.ds_config, context);
  in.run.ds = in.ds_config->config;
  in.notes.insert(in.notes.end(), in.ds_config->notes.begin(), in.ds_config->notes.end());
  if (in.run.ds.precision == Precision::Bf16 && !in.run.gpu.bf16) {
    throw InputError(o.ds_config + ":/bf16", "the " + in.run.gpu.name + " does not do bf16", "use fp16");
  }
}

void set_rank(const RunOptions& o, RunInputs& in) {
  if (o.rank.empty()) return;
  in.all_ranks = o.rank == "all";
  if (in.all_ranks) return;
  const bool number = o.rank.size() < 8 && o.rank.find_first_not_of("0123456789") == std::string::npos;
  in.run.rank = number ? std::stoll(o.rank) : -1;
  if (in.run.rank < 0 || in.run.rank >= in.run.world_size) {
    throw InputError("--rank", "'" + o.rank + "' is not a rank of " + std::to_string(in.run.world_size),
                     "write 0 to " + std::to_string(in.run.world_size - 1) + ", or all");
  }
}

void set_machine(const RunOptions& o, const Catalog& catalog, const FileSource& files, RunInputs& in) {
  const ClusterRead read = o.gpus == "local" ? ClusterRead{local_cluster(catalog), {}} : parse_gpus(o.gpus, catalog, files);
  in.cluster = read.cluster;
  in.notes = read.notes;
  if (!o.host_ram.empty()) in.cluster.node.host_memory = parse_bytes(o.host_ram, "--host-ram");
  if (!o.nvme.empty()) in.cluster.node.nvme = parse_bytes(o.nvme, "--nvme");
  in.run.gpu = in.cluster.node.gpu;
  in.run.world_size = in.cluster.world_size();
  if (in.cluster.node.cpu_cores > 0) {
    in.run.cpu_threads = std::max<std::int64_t>(1, in.cluster.node.cpu_cores / in.cluster.node.gpus);
  }
}

void check_sequence(RunInputs& in) {
  if (in.run.workload.seq_len <= in.run.model.max_positions) return;
  in.notes.push_back({Note::Level::Warning, "beyond-positions",
                      "Sequences of " + text_grouped(in.run.workload.seq_len) + " tokens are longer than the " +
                          text_grouped(in.run.model.max_positions) + " positions of " + in.run.model.name + ".",
                      "shorten --seq-len, or scale the rotary embedding"});
}

// FILE, or FILE#ID for one record of many.
RunInputs inputs_like(const RunOptions& o, const Catalog& catalog, const FileSource& files) {
  if (!o.model.empty() || !o.gpus.empty() || !o.ds_config.empty()) {
    throw InputError("--like", "takes every input from the record", "leave out --model, --gpus and --ds-config");
  }
  const std::size_t hash = o.like.rfind('#');
  const std::string path = o.like.substr(0, hash);
  const std::string id = hash == std::string::npos ? "" : o.like.substr(hash + 1);
  const std::vector<RecordText> texts = record_texts(files, path);
  if (id.empty() && texts.size() > 1) {
    throw InputError("--like", path + " holds " + std::to_string(texts.size()) + " records",
                     "say which: --like " + path + "#ID");
  }
  RunInputs in;
  for (const RecordText& text : texts) {
    if (!id.empty() && record_id(text) != id) continue;
    in.like = read_record(text, catalog, files);
    in.run = in.like->run;
    in.notes = in.like->notes;
    in.micro_batch = in.run.ds.train_micro_batch_size_per_gpu;
    in.grad_accum = in.run.ds.gradient_accumulation_steps;
    in.global_batch = *in.micro_batch * *in.grad_accum * in.run.world_size;
    in.cluster = in.like->machine
                     ? *in.like->machine
                     : parse_gpus(std::to_string(in.run.world_size) + "x" + in.run.gpu.id, catalog, files).cluster;
    return in;
  }
  throw InputError("--like", "no record '" + id + "' in " + path, "name one that is there");
}

}  // namespace

RunInputs run_inputs(const RunOptions& o, Purpose purpose, const Catalog& catalog, const FileSource& files) {
  check_numbers(o);
  RunInputs in;
  if (!o.like.empty()) {
    in = inputs_like(o, catalog, files);
  } else {
    if (o.model.empty()) throw InputError("--model", "no model is named", "add --model, such as --model qwen3-8b");
    if (o.gpus.empty()) throw InputError("--gpus", "no GPUs are named", "add --gpus, such as --gpus 4xA100-40G");
    if (purpose == Purpose::Simulate && o.ds_config.empty()) {
      throw InputError("--ds-config", "no configuration is given", "add --ds-config FILE, or --like RECORD");
    }
    Assumptions assumed(in.assumptions);
    in.run.model = model_named(catalog, files, o.model, "--model");
    set_machine(o, catalog, files, in);
    in.run.versions = versions(o, assumed);
    in.run.workload = workload(o, purpose, assumed);
    settle_batch(o, purpose, in, assumed);
    if (o.ds_config.empty()) in.run.ds.precision = precision(o, in.run.gpu, assumed);
    else read_ds(o, files, in);
    choose_optimizer(o, in, assumed);
    check_sequence(in);
    if (in.run.workload.attention == Attention::Flash && in.run.ds.precision == Precision::Fp32) {
      throw InputError("--attention flash", "FlashAttention takes bf16 and fp16 only", "use --attention sdpa, or 16 bits");
    }
    if (in.run.workload.freeze_layers > in.run.model.layers) {
      throw InputError("--freeze-layers", std::to_string(in.run.workload.freeze_layers) + " of " +
                           std::to_string(in.run.model.layers) + " layers", "freeze at most all of them");
    }
  }
  if (!o.alloc_conf.empty()) in.run.alloc_conf = o.alloc_conf;
  if (!o.capacity.empty()) in.run.capacity_limit = parse_bytes(o.capacity, "--capacity");
  if (o.steps) in.run.steps = *o.steps;
  set_rank(o, in);
  use_profile(o, files, in);
  return in;
}

}  // namespace zplan
