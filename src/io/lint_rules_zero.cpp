// Rules about ZeRO's stage, buckets, limits and offload (C and D of docs/files.md#lint).
#include <nlohmann/json.hpp>

#include "inventory/parameters.h"
#include "io/lint_rules.h"
#include "plan/host_need.h"
#include "units/text.h"

namespace zplan {
namespace {

using Level = Finding::Level;
const std::string zero_at = "/zero_optimization/";

Finding finding(Level level, const char* rule, const std::string& where, const std::string& why, const std::string& fix,
                const std::string& patch = "", std::optional<Bytes> bytes = std::nullopt) {
  return {level, rule, where, "", why, fix, patch, bytes};
}

std::string zero_patch(const std::string& key, const std::string& value) {
  return "{\"zero_optimization\": {\"" + key + "\": " + value + "}}";
}

void stage(const LintView& v, Findings& found) {
  const ZeroConfig& z = v.zero;
  const bool offloads = z.offload_optimizer.device != OffloadDevice::None || z.offload_param.device != OffloadDevice::None;
  if (z.stage == 3 && !z.stage3_gather_16bit_weights_on_model_save) {
    found.push_back(finding(Level::Warning, "C10", zero_at + "stage3_gather_16bit_weights_on_model_save",
                            "At save each rank writes its shards only: no whole weights come out.",
                            "set it to true, or convert the shards with zero_to_fp32.py",
                            zero_patch("stage3_gather_16bit_weights_on_model_save", "true")));
  }
  if (z.stage == 3 && v.run.world_size == 1 && !offloads) {
    found.push_back(finding(Level::Warning, "C21", zero_at + "stage",
                            "On one GPU there is nothing to shard: gathering and releasing only cost time.",
                            "use stage 0 to 2, or offload"));
  }
  if (z.stage == 2 && v.ds.gradient_accumulation_steps > 1) {
    found.push_back(finding(Level::Info, "C23", zero_at + "stage",
                            "Stage 2 reduces the gradients in each of the " +
                                std::to_string(v.ds.gradient_accumulation_steps) + " micro-steps.",
                            "stage 1 reduces once, if its whole gradients fit"));
  }
  if (z.stage == 3 && v.json.contains(nlohmann::json::json_pointer("/zero_optimization/elastic_checkpoint")) &&
      v.json.at(nlohmann::json::json_pointer("/zero_optimization/elastic_checkpoint")) == true) {
    found.push_back(finding(Level::Warning, "C19", zero_at + "elastic_checkpoint", "No longer supported in stage 3.",
                            "use universal checkpoints", zero_patch("elastic_checkpoint", "null")));
  }
}

// Experts run on some ranks and not on others; ZeRO-3 gathers their modules in step only where they are leaves.
void experts(const LintView& v, Findings& found) {
  if (v.zero.stage != 3 || !v.run.model.experts) return;
  const Experts& e = *v.run.model.experts;
  if (!v.run.versions.switches.default_leaf_modules) {
    found.push_back(finding(Level::Warning, "C25", zero_at + "stage",
                            "Ranks that visit different experts gather different modules, and the run hangs, unless the "
                            "mixture is a leaf module.",
                            "call deepspeed.utils.set_z3_leaf_modules, or use a DeepSpeed that sets it itself (0.18.0)"));
  }
  const Bytes stack = Elements{e.count * 3 * e.intermediate * v.run.model.hidden} * width(v.ds.precision);
  found.push_back(finding(Level::Info, "C27", zero_at + "stage",
                          "All experts of a layer are gathered as one piece.", "count it in stage3_max_live_parameters",
                          "", stack));
}

void buckets(const LintView& v, Findings& found) {
  const ZeroConfig& z = v.zero;
  const Bytes w = width(v.ds.precision);
  if (z.stage == 1 || z.stage == 2) {
    const Bytes both = Elements{z.reduce_bucket_size} * w * (z.overlap_comm ? 2 : 1);
    if (!v.given(zero_at + "reduce_bucket_size") && both > Bytes{v.gpu.count / 50}) {
      found.push_back(finding(Level::Warning, "C14", zero_at + "reduce_bucket_size",
                              "Left at its default of 500,000,000 elements" +
                                  std::string(z.overlap_comm ? ", and overlap_comm has two such buckets." : "."),
                              "5e7 to 2e8 is as fast", zero_patch("reduce_bucket_size", "100000000"), both));
    }
    if (z.overlap_comm && v.given(zero_at + "overlap_comm")) {
      found.push_back(finding(Level::Info, "C16", zero_at + "overlap_comm",
                              "Takes a second bucket; below stage 3 the default is off.", "keep it if memory allows", "",
                              Elements{z.reduce_bucket_size} * w));
    }
    if (!z.contiguous_gradients && z.stage == 2 && z.offload_optimizer.device == OffloadDevice::None) {
      found.push_back(finding(Level::Warning, "C17", zero_at + "contiguous_gradients",
                              "Gradients are left where backward made them, which fragments the memory.", "set it to true",
                              zero_patch("contiguous_gradients", "true")));
    }
    if (z.round_robin_gradients && z.offload_optimizer.device == OffloadDevice::None) {
      found.push_back(finding(Level::Info, "C18", zero_at + "round_robin_gradients",
                              "It spreads copies to the host, and there are none.", "remove it",
                              zero_patch("round_robin_gradients", "null")));
    }
  }
  if (z.stage >= 1 && z.reduce_bucket_size < v.shard.largest) {
    found.push_back(finding(Level::Info, "C15", zero_at + "reduce_bucket_size",
                            "Smaller than the largest tensor of " + text_grouped(v.shard.largest) +
                                " elements, which is then reduced alone.",
                            ""));
  }
}

void stage3_limits(const LintView& v, Findings& found) {
  const ZeroConfig& z = v.zero;
  if (z.stage != 3) return;
  const Bytes w = width(v.ds.precision);
  for (const auto& [key, value] : {std::pair{"stage3_max_live_parameters", z.stage3_max_live_parameters},
                                   std::pair{"stage3_max_reuse_distance", z.stage3_max_reuse_distance}}) {
    if (value != 0) continue;
    found.push_back(finding(Level::Warning, "C12", zero_at + key,
                            "0 releases every module at once and gathers it again for each use: least memory, most traffic.",
                            "1e9 unless memory is the limit", zero_patch(key, "1000000000")));
  }
  const bool on_gpu = z.offload_optimizer.device == OffloadDevice::None;
  if (z.sub_group_size == 0) {
    found.push_back(finding(Level::Warning, "C13", zero_at + "sub_group_size", "0 makes a group of every tensor: many small steps.",
                            "1e9, or 1e8 where the step is the peak", zero_patch("sub_group_size", "1000000000")));
  } else if (on_gpu && z.sub_group_size >= v.shard.part) {
    // The step casts a sub-group's gradients to fp32 and holds both (stage3.py:step).
    const Bytes transient = Elements{v.shard.part} * (w + Bytes{4});
    if (transient > Bytes{v.gpu.count / 50}) {
      found.push_back(finding(transient > Bytes{v.gpu.count / 20} ? Level::Warning : Level::Info, "C13",
                              zero_at + "sub_group_size",
                              "As large as all parameters of a rank: the step casts their gradients all at once.",
                              "1e8 makes the step's peak small", zero_patch("sub_group_size", "100000000"), transient));
    }
  }
  Elements kept;
  for (const Parameter& p : parameters(v.run.model, v.run.workload)) {
    if (p.numel <= z.stage3_param_persistence_threshold) kept += Elements{p.numel};
  }
  if (kept * w > MiB(256)) {
    found.push_back(finding(Level::Warning, "C29", zero_at + "stage3_param_persistence_threshold",
                            "Tensors below it stay whole on each GPU.", "10 x hidden size, " +
                                std::to_string(hf_persistence_threshold(v.run.model.hidden)),
                            zero_patch("stage3_param_persistence_threshold",
                                       std::to_string(hf_persistence_threshold(v.run.model.hidden))),
                            kept * w));
  }
  if (z.stage3_allgather_sequential) {
    found.push_back(finding(Level::Info, "C31", zero_at + "stage3_allgather_sequential",
                            "Tensors are gathered one by one, and prefetching ends at one tensor.", ""));
  }
  if (z.zero_hpz_partition_size > v.subject.cluster.node.gpus) {
    found.push_back(finding(Level::Warning, "C30", zero_at + "zero_hpz_partition_size",
                            "The second copy is spread over more than the " + std::to_string(v.subject.cluster.node.gpus) +
                                " GPUs of a node, so that gathers leave it all the same.",
                            "the GPUs of a node",
                            zero_patch("zero_hpz_partition_size", std::to_string(v.subject.cluster.node.gpus))));
  }
}

void host(const LintView& v, Findings& found) {
  const ZeroConfig& z = v.zero;
  const bool optimizer = z.stage > 0 && z.offload_optimizer.device != OffloadDevice::None;
  const bool params = z.stage == 3 && z.offload_param.device != OffloadDevice::None;
  if (!optimizer && !params) return;
  const HostNeed need = host_need(v.shard, v.run.workload, v.ds, v.run.process.host);
  const Bytes node = need.total() * v.subject.cluster.node.gpus;
  const auto& ram = v.subject.cluster.node.host_memory;
  if (ram && node > *ram) {
    found.push_back(finding(Level::Error, "D16", zero_at + (optimizer ? "offload_optimizer" : "offload_param"),
                            "A node needs " + text(node) + " of host memory and has " + text(*ram) + ".",
                            "fewer ranks a node, less offload, or stage 3 with nvme"));
  }
  const bool pins = (optimizer && z.offload_optimizer.pin_memory) || (params && z.offload_param.pin_memory);
  if (pins) {
    found.push_back(finding(Level::Info, "D17", zero_at + (optimizer ? "offload_optimizer" : "offload_param"),
                            "Page-locks " + text(need.pinned) + " of host memory a rank: a container needs a memlock limit above.",
                            "ulimit -l unlimited, or \"pin_memory\": false"));
  }
  if (z.stage == 3 && optimizer && z.offload_optimizer.device == OffloadDevice::Nvme && !v.json.contains("aio")) {
    found.push_back(finding(Level::Warning, "D18", zero_at + "offload_optimizer", "NVMe without an aio section runs with small blocks.",
                            "add \"aio\" with the block size and queue depth of the disk"));
  }
  if (z.stage == 3 && optimizer && z.offload_optimizer.device == OffloadDevice::Nvme && z.offload_optimizer.buffer_count < 4) {
    found.push_back(finding(Level::Error, "D18", zero_at + "offload_optimizer/buffer_count",
                            "Adam swaps four tensors: parameter, gradient and two moments.", "4 or more",
                            R"({"zero_optimization": {"offload_optimizer": {"buffer_count": 4}}})"));
  }
}

}  // namespace

void lint_zero(const LintView& view, Findings& found) {
  stage(view, found);
  experts(view, found);
  buckets(view, found);
  stage3_limits(view, found);
  host(view, found);
}

}  // namespace zplan
