#include "time/communication.h"

#include <algorithm>
#include <cmath>


namespace zplan {
namespace {

// Calls that move `elements` in buckets; DeepSpeed closes a bucket once the next tensor would overflow it.
double buckets(double elements, std::int64_t bucket) {
  return std::max(1.0, elements / static_cast<double>(std::max<std::int64_t>(bucket, 1)));
}

// Share of the gradients in the last bucket. They come from the last layer to the first, the embedding's at the very end
// (tied to the head or not): it and what the bucket before it holds have nothing to hide behind.
double last_bucket_share(const Run& run, const ModelShape& shape) {
  const double all = static_cast<double>(shape.trainable), bucket = static_cast<double>(run.ds.zero.reduce_bucket_size);
  const double embedding = run.workload.finetune == Finetune::Full ? static_cast<double>(shape.embedding_elements) : 0;
  if (all <= 0 || bucket <= 0) return 0;
  return (std::fmod(all - embedding, bucket) + embedding) / all;
}

double gather_width(const Run& run) {
  const double w = static_cast<double>(width(run.ds.precision).count);
  return run.ds.zero.zero_quantized_weights ? 1.0 + 4.0 / 2048 : w;  // int8 and the scales of its groups
}

double reduce_width(const Run& run) {
  return static_cast<double>(width(run.ds.communication_data_type.value_or(run.ds.precision)).count);
}

// Stage 3: every parameter that is not persistent is gathered for forward and, unless it stayed, again for backward;
// gradients are scattered every micro-step, whatever the accumulation.
CommunicationSeconds zero3(const Run& run, const Cluster& cluster, const ModelShape& shape, const MicroStepGathers& gathers,
                           const TimeCoefficients& c) {
  const auto& z = run.ds.zero;
  const Fabric all = fabric(cluster, run.world_size, c);
  const auto gather = z.stage3_use_all_reduce_for_fetch_params ? Collective::AllReduce : Collective::AllGather;
  const auto hpz = z.zero_hpz_partition_size;
  const Fabric secondary = hpz > 1 ? fabric(cluster, hpz, c) : all;

  CommunicationSeconds t;
  t.overlapped = t.boundary_overlapped = z.overlap_comm;
  const auto seconds = [&](const Fabric& f, const Gathers& g) {
    return g.calls > 0 ? collective_seconds(f, gather, g.elements * gather_width(run), g.calls) : 0;
  };
  t.forward = seconds(all, gathers.forward);
  t.backward = seconds(secondary, gathers.backward);
  const auto gradients = tensor_batches(run.model, run.workload, true, 0, z.reduce_bucket_size);
  const double quarter = z.zero_quantized_gradients && all.nodes > 1 ? 0.25 : 1;  // int4 all-to-all between nodes
  const double scattered = collective_seconds(all, z.reduce_scatter ? Collective::ReduceScatter : Collective::AllReduce,
                                              quarter * gradients.large_elements * reduce_width(run), gradients.batches);
  t.backward += scattered;
  t.backward_exposed = last_bucket_share(run, shape) * scattered;
  const auto fetched = tensor_batches(run.model, run.workload, false, z.stage3_param_persistence_threshold, 1);
  const double persistent = static_cast<double>(shape.elements) - fetched.large_elements;
  t.step = collective_seconds(all, Collective::AllGather, persistent * gather_width(run),
                              static_cast<double>(shape.tensors) - fetched.large_tensors > 0 ? 1 : 0);
  return t;
}

}  // namespace

CommunicationSeconds communication_seconds(const Run& run, const Cluster& cluster, const ModelShape& shape,
                                           const MicroStepGathers& gathers, const TimeCoefficients& c) {
  const auto& z = run.ds.zero;
  CommunicationSeconds t;
  if (run.world_size <= 1) return t;
  if (z.stage == 3) return zero3(run, cluster, shape, gathers, c);

  // Stages 0-2 all-reduce whole buckets (stage 1 and 2 too, unless each owner is reduced to by itself): stage 2 in
  // every micro-step, 0 and 1 at the boundary; 0 always after backward, on the compute stream.
  const Fabric all = fabric(cluster, run.world_size, c);
  const double elements = static_cast<double>(shape.trainable);
  const bool to_owner = z.stage > 0 && z.reduce_scatter && !z.use_multi_rank_bucket_allreduce;
  const double reduce =
      to_owner ? collective_seconds(all, Collective::ReduceScatter, elements * reduce_width(run),
                                    std::max(static_cast<double>(shape.trainable_tensors),
                                             buckets(elements, z.reduce_bucket_size)))
               : collective_seconds(all, Collective::AllReduce, elements * reduce_width(run),
                                    buckets(elements, z.stage == 0 ? 500'000'000 : z.reduce_bucket_size));
  const double exposed = z.stage == 0 ? 0 : last_bucket_share(run, shape) * reduce;
  if (z.stage == 2) {
    t.backward = reduce, t.backward_exposed = exposed;
  } else {
    t.boundary_backward = reduce, t.boundary_exposed = exposed;
  }
  t.overlapped = z.overlap_comm && z.stage == 2;
  t.boundary_overlapped = z.overlap_comm && z.stage >= 1;
  if (z.stage >= 1) {
    t.step = collective_seconds(all, Collective::AllGather, elements * static_cast<double>(width(run.ds.precision).count),
                                buckets(elements / static_cast<double>(run.world_size), z.allgather_bucket_size));
  }
  return t;
}

GradientBytes gradient_bytes(const Run& run, const ModelShape& shape) {
  const double n = static_cast<double>(shape.trainable), w = static_cast<double>(width(run.ds.precision).count);
  const double owned = n / static_cast<double>(run.world_size);
  const bool accumulates = run.ds.gradient_accumulation_steps > 1;
  const double add = accumulates ? 3 * w : 0;
  // Copied into the bucket; there divided, slices of several owners joined, the own ones copied back and out.
  const double into = 2 * w * n, within = (run.world_size > 1 ? 4 * w * n : 0) + 4 * w * owned;
  switch (run.ds.zero.stage) {
    case 0: return {add * n, run.world_size > 1 ? 4 * w * n : 0};
    case 1: return {add * n, into + within};
    case 2: return {into + within + add * owned, 0};
    default: return {into + (2 * w + add) * owned, 0};
  }
}

}  // namespace zplan
