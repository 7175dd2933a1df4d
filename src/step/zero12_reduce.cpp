// From a gradient's hook to the epilogue: buckets, all-reduce, the gradients this rank keeps.
#include <algorithm>

#include "step/autocast.h"
#include "step/zero12.h"

namespace zplan {

// S12:_use_compact_grad_partition_buffer.
bool Zero12::compact() const {
  return sw_.fp32_compact_grad_partition && run_.ds.accumulation_dtype() == Precision::Fp32 && width_ != 4;
}

Zero12::Ref Zero12::compact_partition(Group& group) {
  if (group.compact == Storages::kNone) {
    group.compact = storages_.own(recorder_.allocate(4 * group.flat.partition, compact_label_, -1, stream_));
  }
  return group.compact;
}

// One bucket a communication dtype. Under torch_autocast the gradients of the modules it lowers (linears) are sent in
// the autocast dtype, the others in fp32 (runtime/torch_autocast.py get_comm_dtype).
Zero12::Bucket& Zero12::bucket_of(std::int32_t p) {
  const bool lowered = sent_in_autocast_dtype(run_, script_.parameters[static_cast<std::size_t>(p)]);
  return run_.ds.torch_autocast && !lowered ? buckets_.back() : buckets_.front();
}

// S12:setup_buckets: all of them at the first hook, whatever will be in them.
void Zero12::setup_buckets() {
  if (std::exchange(ready_, true)) return;
  ++micro_step_;
  if (buckets_.empty()) {
    buckets_.resize(run_.ds.torch_autocast ? 2 : 1);
    buckets_.back().communication_width = 4;
    buckets_.front().communication_width = run_.ds.torch_autocast ? 2 : run_.ds.communication_data_type ? width(*run_.ds.communication_data_type).count : width_;
  }
  for (auto& bucket : buckets_) bucket.index = 0;
  if (!contiguous()) return;
  for (int copy = 0; copy < (overlap() ? 2 : 1); ++copy) {
    for (auto& bucket : buckets_) {
      bucket.buffers.push_back(storages_.own(recorder_.allocate(width_ * run_.ds.zero.reduce_bucket_size, bucket_label_)));
    }
  }
}

// S12:process_gradients, the hook of AccumulateGrad.
void Zero12::gradient(std::int32_t p, BlockId block) {
  if (place(p).group < 0) { recorder_.free(block); return; }
  if (grad(p) != Storages::kNone) recorder_.free(block);  // added in place
  else grad(p) = storages_.own(block);
  setup_buckets();
  if (stage2() || (overlap() && boundary_)) add_to_bucket(p);
}

// S12:reduce_independent_p_g_buckets_and_remove_grads.
void Zero12::add_to_bucket(std::int32_t p) {
  auto& bucket = bucket_of(p);
  if (bucket.elements + numel(p) > run_.ds.zero.reduce_bucket_size) {
    flush(bucket);
    if (contiguous() && overlap()) bucket.index = 1 - bucket.index;
  }
  if (contiguous()) {
    if (numel(p) > run_.ds.zero.reduce_bucket_size) {
      if (offloaded() && sw_.offload_clone_oversized_grad) {
        auto clone = storages_.own(recorder_.allocate(width_ * numel(p), staging_label_, p));
        storages_.release(grad(p));
        grad(p) = clone;
      }
      bucket.oversized = true;
    } else {
      storages_.release(grad(p));  // copied: param.grad becomes a view of the bucket
      grad(p) = storages_.share(bucket.buffers[bucket.index]);
    }
  }
  bucket.elements += numel(p);
  bucket.gradients.push_back(storages_.share(grad(p)));
  bucket.parameters.push_back(p);
}

// S12:reduce_ipg_grads: all reductions first, then what becomes of the gradients.
void Zero12::flush(Bucket& bucket) {
  reduce(bucket);
  hand_out(bucket);
}

void Zero12::reduce(Bucket& bucket) {
  if (bucket.parameters.empty()) return;
  if (contiguous()) average(bucket);
  else reduce_uncontiguous(bucket);
}

void Zero12::hand_out(Bucket& bucket) {
  for (const auto p : bucket.parameters) {
    if (!stage2()) {
      if (contiguous() && place(p).owned) copy_to_partition(p);
    } else if (!place(p).owned) {
      if (overlap() && !contiguous()) previous_reduced_.push_back(p);
      else storages_.release(grad(p));
    } else if (contiguous()) {
      copy_to_partition(p);
    }
  }
  storages_.release_list(bucket.gradients);
  bucket.parameters.clear();
  bucket.elements = 0;
  bucket.oversized = false;
}

// S12:average_tensor on the bucket's buffer, or on the one gradient that is larger.
void Zero12::average(Bucket& bucket) {
  const auto storage = storages_.block(bucket.gradients.front());
  if (!run_.ds.zero.reduce_scatter) {  // gradient_reduction_w_predivide: in place
    if (bucket.communication_width != width_) {
      recorder_.free(recorder_.allocate(bucket.communication_width * bucket.elements, comm_label_, -1, stream_));
    }
    return;
  }
  // Neighbouring slices of one owner are one.
  std::vector<Slice> merged;
  for (const auto p : bucket.parameters) {
    const auto& at = place(p);
    const auto& slices = groups_[static_cast<std::size_t>(at.group)].flat.slices;
    for (auto s = at.first; s < at.last; ++s) {
      const bool alone = compact() && slices[s].rank == run_.rank;
      if (alone) compact_partition(groups_[static_cast<std::size_t>(at.group)]);
      if (!alone && !merged.empty() && merged.back().rank == slices[s].rank) merged.back().numel += slices[s].numel;
      else merged.push_back(slices[s]);
    }
  }
  const auto limit = run_.ds.zero.reduce_bucket_size;
  const auto in_parts = [&](const std::vector<Slice>& slices) {
    std::vector<Slice> part;
    std::int64_t elements = 0;
    for (const auto& s : slices) {
      part.push_back(s);
      elements += s.numel;
      if (elements > limit) {
        allreduce(part, bucket.communication_width, {storage});
        part.clear();
        elements = 0;
      }
    }
    if (!part.empty()) allreduce(part, bucket.communication_width, {storage});
  };
  if (run_.ds.zero.use_multi_rank_bucket_allreduce) {
    in_parts(merged);
    return;
  }
  // One reduce an owner, in order of first appearance.
  std::vector<std::int64_t> owners;
  for (const auto& s : merged) {
    if (std::find(owners.begin(), owners.end(), s.rank) == owners.end()) owners.push_back(s.rank);
  }
  for (const auto owner : owners) {
    std::vector<Slice> of_owner;
    std::copy_if(merged.begin(), merged.end(), std::back_inserter(of_owner), [&](const Slice& s) { return s.rank == owner; });
    if (overlap()) recorder_.synchronize();  // allreduce_and_copy synchronizes the device
    in_parts(of_owner);
  }
}

// S12:allreduce_and_copy_with_multiple_ranks: flatten (a view for one slice), communication dtype, copy back what is owned.
void Zero12::allreduce(const std::vector<Slice>& slices, std::int64_t communication_width, const std::vector<BlockId>& storages) {
  std::int64_t elements = 0;
  bool own = false;
  for (const auto& s : slices) {
    elements += s.numel;
    own = own || s.rank == run_.rank;
  }
  auto cat = slices.size() > 1 ? recorder_.allocate(width_ * elements, cat_label_, -1, stream_) : -1;
  BlockId comm = -1;
  if (communication_width != width_) {
    comm = recorder_.allocate(communication_width * elements, comm_label_, -1, stream_);
    // allreduce_bucket returns one of the two; the other goes with the call.
    auto& dropped = sw_.reduce_result_in_comm_dtype ? cat : comm;
    if (dropped >= 0) recorder_.free(dropped);
    dropped = -1;
  }
  // _add_to_grad_partition_buffer: the owned slice is converted, unless it was reduced in fp32.
  for (const auto& s : slices) {
    if (!compact() || s.rank != run_.rank) continue;
    const bool reduced_in_fp32 = comm >= 0 && communication_width == 4;
    if (!reduced_in_fp32) recorder_.free(recorder_.allocate(4 * s.numel, compact_label_, -1, stream_));
  }
  const bool view = cat < 0 && comm < 0;
  if (view || own) {
    for (const auto b : storages) record(b);  // allreduced.record_stream, buf.record_stream
  }
  for (const auto b : {cat, comm}) {
    if (b >= 0) recorder_.free(b);
  }
}

// S12:buffered_reduce_fallback: all gradients of the bucket in one copy.
void Zero12::reduce_uncontiguous(Bucket& bucket) {
  if (overlap()) {
    recorder_.synchronize();
    for (const auto p : previous_reduced_) storages_.release(grad(p));
    previous_reduced_.clear();
  }
  std::vector<Slice> whole;
  std::vector<BlockId> storages;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    whole.push_back({bucket.parameters[i], run_.rank, 0, numel(bucket.parameters[i])});
    storages.push_back(storages_.block(bucket.gradients[i]));
  }
  allreduce(whole, bucket.communication_width, storages);
}

// S12:copy_grads_in_partition: the full gradient of every parameter this rank owns a piece of.
void Zero12::copy_to_partition(std::int32_t p) {
  if (offloaded()) { offload_gradient(p); return; }
  if (compact()) return;  // the reduction added it to the fp32 partition
  if (partition_gradients_ == Storages::kNone) {
    std::int64_t total = 0;
    for (const auto& g : groups_) total += g.flat.owned_whole;
    partition_gradients_ = storages_.own(recorder_.allocate(width_ * total, partition_label_, -1, stream_));
  }
  storages_.release(grad(p));
  grad(p) = storages_.share(partition_gradients_);
}

void Zero12::release_buckets() {
  for (auto& bucket : buckets_) storages_.release_list(bucket.buffers);
  storages_.release(partition_gradients_);
  ready_ = false;
}

// S12:independent_gradient_partition_epilogue.
void Zero12::epilogue() {
  for (auto& bucket : buckets_) reduce(bucket);
  for (auto& bucket : buckets_) hand_out(bucket);
  if (overlap()) {
    recorder_.synchronize();
    for (const auto p : previous_reduced_) storages_.release(grad(p));
    previous_reduced_.clear();
  }
  if (!offloaded()) {
    for (auto& g : groups_) {
      if (compact()) {
        if (boundary_) compact_partition(g);
        continue;
      }
      if (g.accumulated.empty()) {
        std::int32_t last = -1;
        for (const auto& s : g.flat.owned) {
          if (s.parameter != std::exchange(last, s.parameter)) g.accumulated.push_back(storages_.share(grad(s.parameter)));
        }
      }
      if (!boundary_) continue;
      g.averaged = std::move(g.accumulated);
      g.accumulated.clear();
      // S12:get_flat_partition pads the last partition with zeros.
      g.averaged_padding = g.flat.partition - g.flat.owned_numel;
      if (g.averaged_padding > 0) {
        const auto width = zplan::width(run_.ds.accumulation_dtype()).count;
        g.averaged.push_back(storages_.own(recorder_.allocate(width * g.averaged_padding, zero_label_)));
      }
    }
  }
  release_buckets();
  for (const auto& g : groups_) {
    for (const auto p : g.flat.parameters) storages_.release(grad(p));
  }
}

}  // namespace zplan
