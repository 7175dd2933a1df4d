#include "step/zero3.h"

#include <algorithm>
#include <string>

#include "step/autocast.h"
#include "step/optimizer.h"
#include "units/units.h"

namespace zplan {
namespace {

std::vector<std::int64_t> widths(const Run& run, const std::vector<Parameter>& parameters) {
  std::vector<std::int64_t> out;
  for (const auto& p : parameters) {
    out.push_back((p.adapter() && adapters_stay_fp32(run.workload, run.ds, run.versions.switches)) || run.ds.torch_autocast ? 4 : width(run.ds.precision).count);
  }
  return out;
}

}  // namespace

Zero3::Zero3(const Run& run, const Script& script, Recorder& recorder)
    : run_(run), script_(script), recorder_(recorder), widths_(widths(run, script.parameters)),
      coordinator_(run, script.parameters, script.modules, recorder, widths_),
      reduce_stream_(run.ds.zero.overlap_comm ? kReduce : kCompute),
      build_label_(recorder.label("parameter under construction", Component::StepTransients)),
      partition_label_(recorder.label("partition of a parameter", Component::Parameters)),
      flat_label_(recorder.label("flat buffer of the parameter partitions", Component::Parameters)),
      master_label_(recorder.label("fp32 master of sub-group", Component::Optimizer)),
      clone_label_(recorder.label("clone of sub-group", Component::StepTransients)),
      convert_label_(recorder.label("fp32 conversion of sub-group", Component::StepTransients)),
      zero_grad_label_(recorder.label("zero gradient of the largest sub-group", Component::StepTransients)),
      bucket_label_(recorder.label("reduce bucket", Component::CommBuckets)),
      grad_label_(recorder.label("flat buffer of the gradient partitions", Component::Gradients)),
      cat_label_(recorder.label("gradients flattened for the reduce-scatter", Component::CommBuckets)),
      cast_label_(recorder.label("gradient partition in the accumulation dtype", Component::CommBuckets)),
      norm_label_(recorder.label("gradient partition in double, for the norm", Component::StepTransients)),
      flat_grad_label_(recorder.label("flattened gradient of sub-group", Component::StepTransients)),
      fp32_grad_label_(recorder.label("fp32 gradient of sub-group", Component::StepTransients)),
      adam_label_(recorder.label("optimizer state of sub-group", Component::Optimizer)),
      scalar_label_(recorder.label("scalar of the engine", Component::StepTransients)),
      gather_label_(recorder.label("parameter gathered to attach its hook", Component::GatheredParameters)),
      accumulator_label_(recorder.label("gradient accumulator copied from the host", Component::StepTransients)),
      overflow_label_(recorder.label("overflow check of the gradient buffer", Component::StepTransients)),
      foreach_label_(recorder.label("square root of exp_avg_sq (foreach)", Component::StepTransients)),
      scalars_(recorder, scalar_label_), pinned_(recorder) {
  recorder.use_clock(run.gpu, run.ds.precision == Precision::Fp32 && !run.ds.torch_autocast);
  buckets_.resize(run.ds.torch_autocast ? 2 : 1);
  buckets_.back().width = width(run.ds.precision).count;
  for (const auto& m : script.modules.all) {
    keeps_views_.push_back(m.leaf || m.name == "experts" || (script.torch_linears && is_linear(m)));
  }
  // S3:_create_fp16_sub_groups: parameters in order until the partitions reach sub_group_size.
  const auto close = [&](SubGroup& g) {
    if (!g.parameters.empty()) groups_.push_back(std::move(g));
    g = {};
  };
  SubGroup group;
  for (std::int64_t g = 0; g < run.workload.parameter_groups; ++g) {
    for (std::size_t i = 0; i < script.parameters.size(); ++i) {
      if (!script.parameters[i].trainable || parameter_group(script.parameters[i], run.workload.parameter_groups) != g) continue;
      const auto p = static_cast<std::int32_t>(i);
      group.parameters.push_back(p);
      group.elements += partition(p);
      if (group.elements >= run.ds.zero.sub_group_size) close(group);
    }
    close(group);
  }
  // S3:_create_fp32_partitions: with twin flow (ratio < 1) the first sub-groups stay on the device.
  const auto first_on_cpu = static_cast<std::size_t>((1.0 - run.ds.zero.offload_optimizer.ratio) * static_cast<double>(groups_.size()));
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].on_cpu = offloaded() && g >= first_on_cpu;
}

void Zero3::host_buffer(std::int64_t bytes, bool pinned) {
  if (pinned) pinned_.allocate(bytes);
  else recorder_.host(bytes);
}

// zero.Init: every module's parameters are built in full, partitioned and dropped (PP:_partition_param).
void Zero3::load() {
  partitions_.assign(script_.parameters.size(), -1);
  const auto partitioned = [&](std::int32_t index, std::int64_t numel, std::int64_t width, BlockId whole) {
    const auto bytes = ceil_div(numel, run_.world_size) * width;
    const auto part = params_offloaded() ? -1 : recorder_.allocate(bytes, partition_label_, index);
    if (params_offloaded()) host_buffer(bytes, run_.ds.zero.offload_param.pin_memory);
    if (index >= 0) coordinator_.make_secondary(index);
    recorder_.free(whole);
    return part;
  };
  // A module's parameters are all made before the first is partitioned: a weight and its bias, the experts' two stacks.
  std::vector<BlockId> whole;
  for (std::size_t first = 0; first < script_.parameters.size();) {
    const auto& module = script_.parameters[first];
    std::size_t end = first + 1;
    if (module.adapter()) { first = end; continue; }  // PEFT adds them afterwards
    const auto same = [&](const Parameter& p) { return !p.adapter() && p.owner == module.owner && p.layer == module.layer; };
    while (end < script_.parameters.size() && same(script_.parameters[end])) ++end;
    if (module.owner == Owner::LmHead) rotary_buffers();  // the head comes after the model
    whole.clear();
    for (auto i = first; i < end; ++i) {
      if (script_.parameters[i].quantized) quantization_state(script_.parameters[i].numel);
      const auto p = static_cast<std::int32_t>(i);
      whole.push_back(recorder_.allocate(coordinator_.numel(p) * widths_[i], build_label_, p));
    }
    for (auto i = first; i < end; ++i) {
      const auto p = static_cast<std::int32_t>(i);
      partitions_[i] = partitioned(p, coordinator_.numel(p), widths_[i], whole[i - first]);
    }
    first = end;
  }
  // A tied lm_head is built and partitioned before the tie.
  if (run_.model.tied_embeddings) {
    rotary_buffers();
    orphaned_ = true;
    const auto numel = run_.model.vocab * run_.model.hidden, head_width = width(run_.ds.precision).count;
    orphan_head_ = partitioned(-1, numel, head_width, recorder_.allocate(numel * head_width, build_label_));
  }
  // get_peft_model drops the last references to the old head; its adapters come whole, outside zero.Init, in the dtype of
  // the linears they are made for, and are then made fp32 (cast_adapter_dtype).
  if (!run_.workload.adapted()) return;
  free_orphan_head();
  whole_adapters(lp());
  if (made_fp32()) whole_adapters(4);
}

std::int64_t Zero3::lp() const { return run_.ds.torch_autocast ? 4 : width(run_.ds.precision).count; }
bool Zero3::made_fp32() const { return run_.workload.adapted() && run_.workload.adapter_autocast && lp() < 4; }

// The adapters, whole in `width`, take the place of what is there.
void Zero3::whole_adapters(std::int64_t width) {
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    if (!script_.parameters[i].adapter()) continue;
    const auto block = recorder_.allocate(script_.parameters[i].numel * width, build_label_, static_cast<std::int64_t>(i));
    const auto before = std::exchange(partitions_[i], block);
    if (before >= 0) recorder_.free(before);
  }
}

// What bitsandbytes keeps of a 4-bit weight besides it (functional.py quantize_4bit, nested statistics): whole on every
// rank.
void Zero3::quantization_state(std::int64_t numel) {
  const auto blocks = ceil_div(numel, 64);
  for (const auto bytes : {std::int64_t{64}, std::int64_t{4}, 4 * ceil_div(blocks, 256), blocks, std::int64_t{1024}}) {
    recorder_.allocate(bytes, partition_label_);
  }
}

// Qwen3RotaryEmbedding.__init__ under zero.Init makes inv_freq on the device, and a copy; init_weights once more.
void Zero3::rotary_buffers() {
  const auto d = std::to_string(run_.model.head_dim), d2 = std::to_string(2 * run_.model.head_dim);
  const std::string compute = "arange=" + d2 + " half=" + d + " -arange div=" + d + " -half pow=" + d +
                              " base=8 -base -div reciprocal=" + d + " inv_freq=" + d + " -reciprocal -pow ";
  scalars_.play((compute + "original_inv_freq=" + d).c_str());
  scalars_.rename("inv_freq", "kept_inv_freq");
  scalars_.play((compute + "-inv_freq").c_str());
}

void Zero3::init() {
  const auto& sw = run_.versions.switches;
  if (made_fp32() && !adapters_stay_fp32(run_.workload, run_.ds, sw)) whole_adapters(lp());
  if (!offloaded() && run_.workload.optimizer == OptimizerKind::DeepSpeedAdam) {
    if (sw.norm_before_scale_update) free_orphan_head();
    scalars_.play("dummy_overflow_buf=4");  // ops/adam/fused_adam.py
  }
  free_orphan_head();
  // Parameters that are not ZeRO-3's yet are partitioned one by one (PO:_convert_to_zero_parameters).
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    if (!script_.parameters[i].adapter()) continue;
    const auto part = recorder_.allocate(ceil_div(script_.parameters[i].numel, run_.world_size) * widths_[i], partition_label_, static_cast<std::int64_t>(i));
    recorder_.free(std::exchange(partitions_[i], part));
  }
  if (!offloaded()) scalars_.play("inf_or_nan_tracker=1");
  // Defragmentation: trainable partitions move through the host into one flat buffer (RU:defragment).
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    if (partitions_[i] >= 0 && script_.parameters[i].trainable) recorder_.free(std::exchange(partitions_[i], -1));
  }
  std::int64_t flat = 0;
  for (const auto& g : groups_) {
    for (const auto p : g.parameters) flat += partition(p) * widths_[static_cast<std::size_t>(p)];
  }
  if (params_offloaded()) {
    // S3:_create_param_groups_fp16_flat_cpu_memory: always pinned; the single partitions go to the host cache.
    pinned_.allocate(flat);
    for (const auto& g : groups_) {
      for (const auto p : g.parameters) drop_partition(partition(p) * widths_[static_cast<std::size_t>(p)]);
    }
  } else {
    recorder_.host(flat);  // defragment copies through the host
    recorder_.host(-flat);
    recorder_.empty_cache();
    recorder_.allocate(flat, flat_label_);
  }
  std::int64_t largest = 0;
  BlockId converted = -1;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    largest = std::max(largest, groups_[g].elements);
    if (groups_[g].on_cpu) {
      const auto bytes = master_width() * groups_[g].elements;
      recorder_.host(2 * bytes);  // `converted` and its clone, the master: unpinned whatever the flag says
      recorder_.host(-bytes);
      host_buffer(bytes, run_.ds.zero.offload_optimizer.pin_memory);  // its .grad
      continue;
    }
    const auto index = static_cast<std::int64_t>(g);
    const auto bytes = master_width() * groups_[g].elements;
    // fp32 adapters on the device need no conversion: the master is the clone.
    const auto source_width = widths_[static_cast<std::size_t>(groups_[g].parameters.front())];
    if (source_width == master_width() && !params_offloaded()) {
      recorder_.allocate(bytes, master_label_, index);
    } else if (sw.master_from_converted) {
      const auto next = recorder_.allocate(bytes, convert_label_, index);
      if (converted >= 0) recorder_.free(converted);  // `converted` goes when the next one is bound
      converted = next;
      recorder_.allocate(bytes, master_label_, index);
    } else {  // flat.to(device).clone().float(): the clone is of 16 bits
      const auto clone = recorder_.allocate(source_width * groups_[g].elements, clone_label_, index);
      recorder_.allocate(bytes, master_label_, index);
      recorder_.free(clone);
    }
    if (offloaded()) recorder_.allocate(master_width() * groups_[g].elements, fp32_grad_label_, index);  // twin flow
  }
  if (converted >= 0) recorder_.free(converted);
  if (!offloaded()) recorder_.free(recorder_.allocate(master_width() * largest, zero_grad_label_));
  for (const auto& bucket : buckets_) {
    if (run_.ds.zero.contiguous_gradients) recorder_.allocate(bucket.width * run_.ds.zero.reduce_bucket_size, bucket_label_);
  }
  std::int64_t elements = 0;
  for (const auto& g : groups_) elements += g.elements;
  const auto accumulator = width(run_.ds.accumulation_dtype()).count * elements;
  if (offloaded()) {
    recorder_.host(accumulator);  // made unpinned first
    host_buffer(accumulator, run_.ds.zero.offload_optimizer.pin_memory);
    if (run_.ds.zero.offload_optimizer.pin_memory) recorder_.host(-accumulator);
  } else {
    recorder_.allocate(accumulator, grad_label_);
  }
  // create_reduce_and_remove_grad_hooks gathers and re-partitions every trainable parameter once.
  for (const auto& g : groups_) {
    for (const auto p : g.parameters) {
      if (run_.world_size == 1) continue;
      const auto width = widths_[static_cast<std::size_t>(p)], bytes = partition(p) * width;
      const auto gathered = recorder_.allocate(bytes * run_.world_size, gather_label_, p);
      if (!sw.single_gather_in_place) {  // PP:_allgather_params copies the parameter out of what it gathered
        const auto whole = recorder_.allocate(parameter(p).numel * width, gather_label_, p);
        recorder_.free(gathered);
        recorder_.free(whole);
        continue;
      }
      if (params_offloaded()) recorder_.free(recorder_.allocate(bytes, partition_label_, p));
      recorder_.free(gathered);
    }
  }
}

void Zero3::enter_forward(std::int32_t module, bool recompute) {
  const auto& m = script_.modules.all[static_cast<std::size_t>(module)];
  if (m.reads >= 0) coordinator_.use_external(m.reads, m.reader);
  else coordinator_.fetch(module, true, recompute);
}

void Zero3::leave_forward(std::int32_t module, bool recompute) {
  using Keeps = Coordinator::Keeps;
  const auto& again = run_.workload.recompute;
  const bool recorded = recompute || !again.at(script_.modules.all[static_cast<std::size_t>(module)].layer);
  const bool whole = recompute && again.impl == RecomputeImpl::NonReentrant;
  const bool views = recorded && keeps_views_[static_cast<std::size_t>(module)];
  coordinator_.release(module, true, whole ? Keeps::Trained : views ? Keeps::Views : Keeps::Nothing);
}

void Zero3::before_forward(const Accumulation& at) {
  micro_step_ = at.micro_step;
  boundary_ = at.boundary();
}

// S3:reduce_independent_p_g_buckets_and_remove_grads, __add_grad_to_ipg_bucket.
void Zero3::gradient(std::int32_t p, BlockId block) {
  if (!parameter(p).trainable) { recorder_.free(block); return; }
  auto& bucket = bucket_of(p);
  const auto numel = parameter(p).numel, limit = run_.ds.zero.reduce_bucket_size;
  if (bucket.elements + numel > limit && bucket.elements > 0) reduce(bucket);
  if (run_.ds.zero.contiguous_gradients && bucket.elements + numel <= limit) {
    auto& clock = *recorder_.clock();
    clock.waits(reduce_stream_, kCompute);
    clock.writes(reduce_stream_, numel * 2);
    recorder_.record_stream(block, reduce_stream_);
    recorder_.free(block);
    bucket.gradients.push_back({p, -1});
  } else {
    bucket.gradients.push_back({p, block});
  }
  bucket.elements += numel;
}

Zero3::Bucket& Zero3::bucket_of(std::int32_t p) {
  return sent_in_autocast_dtype(run_, parameter(p)) ? buckets_.front() : buckets_.back();
}

// S3:__reduce_and_partition_ipg_grads with CC:reduce_scatter_coalesced.
void Zero3::reduce(Bucket& bucket) {
  if (bucket.gradients.empty()) return;
  const auto lp = bucket.width;
  // At most max_param_reduce_events (2) reductions are queued: the host waits for the oldest.
  auto& clock = *recorder_.clock();
  if (reductions_.size() > 2) {
    clock.host_waits(reductions_.front());
    reductions_.pop_front();
  }
  clock.host_works(Clock::kGather);
  clock.waits(reduce_stream_, kCompute);
  clock.writes(reduce_stream_, bucket.elements * lp);
  std::sort(bucket.gradients.begin(), bucket.gradients.end(), [](const InBucket& a, const InBucket& b) { return a.parameter < b.parameter; });
  const bool in_place = bucket.gradients.size() == 1 && parameter(bucket.gradients[0].parameter).numel % run_.world_size == 0;
  const bool averaged = !run_.ds.zero.reduce_scatter && run_.ds.zero.contiguous_gradients &&
                        bucket.elements <= run_.ds.zero.reduce_bucket_size;
  // A gradient of its own is not yet in the dtype that is sent.
  std::vector<BlockId> narrow;
  for (const auto& b : bucket.gradients) {
    if (b.own >= 0 && lp < width(run_.ds.precision).count) {
      narrow.push_back(recorder_.allocate(parameter(b.parameter).numel * lp, cast_label_, b.parameter, reduce_stream_));
    }
  }
  BlockId cat = -1;
  if (averaged) {  // S3:__avg_scatter_contiguous_grads all-reduces the bucket and scales a copy of it
    cat = recorder_.allocate(bucket.elements * lp, cat_label_, -1, reduce_stream_);
  } else if (!in_place) {
    // Partitions of all ranks, interleaved; a short one is padded by a tensor of its own.
    std::vector<BlockId> padding;
    std::int64_t elements = 0;
    for (std::int64_t rank = 0; rank < run_.world_size; ++rank) {
      for (const auto& b : bucket.gradients) {
        const auto n = partition(b.parameter), whole = parameter(b.parameter).numel;
        const auto missing = n - std::clamp<std::int64_t>(whole - rank * n, 0, n);
        if (missing > 0) padding.push_back(recorder_.allocate(missing * lp, cat_label_, b.parameter, reduce_stream_));
        elements += n;
      }
    }
    cat = recorder_.allocate(elements * lp, cat_label_, -1, reduce_stream_);
    for (auto it = padding.rbegin(); it != padding.rend(); ++it) recorder_.free(*it);
  }
  // Partitions are cast to the accumulation dtype before they are added.
  std::vector<BlockId> casts;
  if (width(run_.ds.accumulation_dtype()).count != lp || run_.ds.accumulation_dtype() != run_.ds.precision) {
    for (const auto& b : bucket.gradients) {
      casts.push_back(recorder_.allocate(partition(b.parameter) * width(run_.ds.accumulation_dtype()).count, cast_label_,
                                         b.parameter, reduce_stream_));
    }
    if (cat >= 0) recorder_.free(std::exchange(cat, -1));
  }
  for (const auto block : narrow) recorder_.free(block);
  for (const auto& b : bucket.gradients) {
    partition_gradient(b.parameter);
    if (b.own < 0) continue;
    recorder_.record_stream(b.own, reduce_stream_);
    recorder_.free(b.own);
  }
  for (auto it = casts.rbegin(); it != casts.rend(); ++it) recorder_.free(*it);
  if (cat >= 0) recorder_.free(cat);
  reductions_.push_back(clock.stream(reduce_stream_));
  bucket.gradients.clear();
  bucket.elements = 0;
}

// S3:partition_grads: into the flat gradient buffer; with offload through a GPU copy of the accumulator.
void Zero3::partition_gradient(std::int32_t p) {
  if (!offloaded()) return;
  const auto n = partition(p), accumulate = width(run_.ds.accumulation_dtype()).count;
  auto& clock = *recorder_.clock();
  const auto copy = recorder_.allocate(n * accumulate, accumulator_label_, p, reduce_stream_);
  clock.copies(reduce_stream_, 2 * n * accumulate);  // to the host's accumulator and back
  if (boundary_) {
    offloaded_norms_.push_back(buffered_norm(p, n));
    recorder_.free(recorder_.allocate(4 * n, fp32_grad_label_, p, reduce_stream_));
    clock.copies(reduce_stream_, 4 * n);
  }
  recorder_.free(copy);
}

// S3:_constant_buffered_norm2: the norm in chunks of 2.5e8 elements; 8 bytes stay until the step.
BlockId Zero3::buffered_norm(std::int32_t p, std::int64_t n) {
  const auto small = [&](std::int64_t bytes) { return recorder_.allocate(bytes, scalar_label_, -1, reduce_stream_); };
  BlockId sum = -1;
  for (std::int64_t done = 0; done < n;) {
    const auto chunk = std::min<std::int64_t>(n - done, 250'000'000);
    const auto whole = recorder_.allocate(8 * chunk, norm_label_, p, reduce_stream_);
    const auto norm = small(8);
    if (const auto scratch = norm_scratch(chunk, run_.gpu.sm_count).bytes) {
      const auto partial = small(scratch), semaphore = small(4);
      recorder_.free(semaphore);
      recorder_.free(partial);
    }
    recorder_.free(whole);
    const auto squared = small(8);
    recorder_.free(norm);
    if (sum < 0) sum = squared;
    else recorder_.free(squared);  // added in place
    done += chunk;
  }
  const auto root = small(8);
  recorder_.free(sum);
  return root;
}

// The partition of a tied lm_head, built before the tie.
void Zero3::free_orphan_head() {
  if (!std::exchange(orphaned_, false)) return;
  if (orphan_head_ >= 0) recorder_.free(std::exchange(orphan_head_, -1));
  else drop_partition(ceil_div(run_.model.vocab * run_.model.hidden, run_.world_size) * width(run_.ds.precision).count);
}

void Zero3::drop_partition(std::int64_t bytes) {
  if (run_.ds.zero.offload_param.pin_memory) pinned_.free(bytes);
  else recorder_.host(-bytes);
}

void Zero3::after_backward(const Accumulation&) {
  for (auto& bucket : buckets_) reduce(bucket);
  recorder_.synchronize();  // reduce_and_partition_stream.synchronize()
}

void Zero3::drop_graph() {
  if (run_.versions.switches.release_backward_leftovers) coordinator_.release_backward_leftovers();
  coordinator_.drop_graph();
}

void Zero3::overflow_check() {
  std::int64_t elements = 0;
  for (const auto& g : groups_) elements += g.elements;
  const auto one = [&](std::int64_t bytes) { return recorder_.allocate(bytes, overflow_label_, -1, reduce_stream_); };
  const auto any = [&] {
    const auto result = one(1), scratch = one(reduction_blocks(elements, run_.gpu.sm_count)), semaphore = one(4);
    recorder_.free(semaphore);
    recorder_.free(scratch);
    return result;
  };
  // isinf is abs() == inf.
  const auto magnitude = one(width(run_.ds.accumulation_dtype()).count * elements), isinf = one(elements);
  recorder_.free(magnitude);
  const auto any_inf = any();
  recorder_.free(isinf);
  recorder_.free(any_inf);
  const auto isnan = one(elements), any_nan = any();
  recorder_.free(isnan);
  recorder_.free(any_nan);
  const auto clone = one(1), overflow = one(1);
  recorder_.free(clone);
  recorder_.free(overflow);
}

// S3:get_grad_norm_direct, one sub-group after the other.
void Zero3::norms() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<BlockId> results;
    for (const auto p : groups_[g].parameters) {
      const auto n = partition(p);
      const auto whole = recorder_.allocate(8 * n, norm_label_, p);
      results.push_back(recorder_.allocate(8, scalar_label_));
      if (const auto scratch = norm_scratch(n, run_.gpu.sm_count).bytes) {
        const auto partial = recorder_.allocate(scratch, scalar_label_), semaphore = recorder_.allocate(4, scalar_label_);
        recorder_.free(semaphore);
        recorder_.free(partial);
      }
      recorder_.free(whole);
    }
    const auto bytes = std::to_string(8 * results.size());
    scalars_.play(("stack=" + bytes + " squared=" + bytes + " -stack sum=8 -squared total=8 abs=8 isinf=1 -abs "
                   "isnan=1 inf_or_nan=1 err=4 wide=8").c_str());
    scalars_.play(("norm" + std::to_string(g) + "=8 -wide -total -sum").c_str());
    for (auto it = results.rbegin(); it != results.rend(); ++it) recorder_.free(*it);
    scalars_.play("-isinf -isnan -inf_or_nan -err");
  }
}

// S3:complete_grad_norm_calculation_for_cpu_offload.
void Zero3::offloaded_norms() {
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      scalars_.play(i == 0 ? "squared=8 total=8 -squared" : "squared=8 -squared");
    }
    scalars_.play("total_cuda=4 norm=4 -total abs=4 isinf=1 -abs isnan=1 inf_or_nan=1 err=4 -isinf -isnan -inf_or_nan -err "
                  "-norm -total_cuda");
  }
}

// 0.19.8 RU:combine_grad_norm_groups and is_invalid_grad_norm.
void Zero3::combine_norms(const char* groups) {
  const std::string invalid = "abs=8 ne=1 eq=1 finite=1 -eq -ne -abs not=1 -finite negative=1 either=1 -not -negative any=1 -either ";
  const std::string stacked = "abs=" + std::string(groups);
  const auto flags = std::to_string(groups_.size());
  scalars_.play(("stack=" + std::string(groups) + " " + stacked + " ne=" + flags + " eq=" + flags + " finite=" + flags +
                 " -eq -ne -abs not=" + flags + " -finite negative=" + flags + " either=" + flags +
                 " -not -negative any=1 -either norm=8 full=8 scaled=8 -full -stack -any -norm").c_str());
  scalars_.play((invalid + "-any").c_str());
}

// S3:_pre_step, _partition_all_parameters.
void Zero3::pre_step(const Accumulation& at) {
  if (at.boundary()) coordinator_.release_all();
}

void Zero3::step(const Accumulation& at) {
  if (!at.boundary()) return;
  if (run_.ds.precision == Precision::Fp16 && !offloaded()) overflow_check();  // on the host otherwise
  if (offloaded()) {
    offloaded_norms();
  } else {
    norms();
    const auto groups = std::to_string(8 * groups_.size());
    if (run_.versions.switches.norm_before_scale_update) combine_norms(groups.c_str());
    else scalars_.play(("norms=" + groups + " scaled=8 -norms").c_str());
    scalars_.play(at.step > 0 ? "global_grad_norm_now=8" : "global_grad_norm=8");
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) step_sub_group(groups_[g], static_cast<std::int64_t>(g));
  for (const auto block : offloaded_norms_) recorder_.free(block);  // reset_cpu_buffers
  offloaded_norms_.clear();
}

// S3:_post_step.
void Zero3::post_step(const Accumulation& at) {
  if (!at.boundary()) return;
  coordinator_.gather_persistent(true);
  recorder_.synchronize();
  coordinator_.drop_secondary();
}

void Zero3::step_returns(const Accumulation& at) {
  if (!at.boundary() || offloaded()) return;
  for (std::size_t g = 0; g < groups_.size(); ++g) scalars_.play(("-norm" + std::to_string(g)).c_str());
  scalars_.play("-scaled");
  if (at.step > 0) {  // the engine keeps the last one until the step returns
    scalars_.play("-global_grad_norm");
    scalars_.rename("global_grad_norm_now", "global_grad_norm");
  }
}

void Zero3::step_sub_group(SubGroup& group, std::int64_t index) {
  if (group.on_cpu) {  // DeepSpeedCPUAdam: nothing on the device
    if (!std::exchange(group.states, true)) recorder_.host((run_.ds.bf16_optimizer_states ? 4 : 8) * group.elements);
    const auto cast = width(run_.ds.precision).count * group.elements;  // fp32 to the model's dtype, pageable
    recorder_.host(cast);
    recorder_.host(-cast);
    return;
  }
  if (offloaded()) {  // twin flow steps its GPU sub-groups by plain torch.optim.AdamW
    optimizer_step(recorder_, OptimizerKind::TorchAdamForeach, {adam_label_, foreach_label_}, group.elements, index,
                   !std::exchange(group.states, true));
    return;
  }
  const auto n = group.elements, accumulate = width(run_.ds.accumulation_dtype()).count;
  // S3:_prepare_fp32_grad_for_sub_group: flatten is a view for one tensor, the cast is one for fp32 accumulation.
  const auto flat = group.parameters.size() > 1 ? recorder_.allocate(accumulate * n, flat_grad_label_, index) : -1;
  BlockId gradient = flat;
  if (accumulate != master_width()) {
    gradient = recorder_.allocate(master_width() * n, fp32_grad_label_, index);
    if (flat >= 0) recorder_.free(flat);
  }
  if (run_.ds.gradient_clipping > 0) {
    scalars_.play("div=8 add=8 -div div2=8 -add clip=8 -div2 scale=8 reciprocal=8 factor=8 -reciprocal -factor -scale -clip");
  }
  optimizer_step(recorder_, run_.workload.optimizer, {adam_label_, foreach_label_}, n, index, !std::exchange(group.states, true),
                 run_.ds.bf16_optimizer_states ? 2 : 4);
  if (gradient >= 0) recorder_.free(gradient);
}

}  // namespace zplan
