#include "plan/axes.h"

#include <algorithm>
#include <map>

#include "spec/error.h"
#include "step/simulation.h"

namespace zplan {
namespace {

// Reads the digit of an axis off a mixed-radix number, least significant first.
class Digits {
 public:
  explicit Digits(std::int64_t number) : rest_(number) {}
  template <class Value>
  Value next(const std::vector<Value>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    const auto digit = rest_ % n;
    rest_ /= n;
    return values[static_cast<std::size_t>(digit)];
  }

 private:
  std::int64_t rest_;
};

template <class Value>
std::vector<Value> if_stage3(int stage, const std::vector<Value>& values) {
  return stage == 3 ? values : std::vector<Value>{values.front()};
}

template <class Value>
std::int64_t product(const std::vector<Value>& values) { return static_cast<std::int64_t>(values.size()); }

std::int64_t whole_number(const std::string& text, const std::string& where) {
  try {
    std::size_t used = 0;
    const double value = std::stod(text, &used);
    if (used == text.size() && value >= 0 && value < 9e18 && value == static_cast<double>(static_cast<std::int64_t>(value))) {
      return static_cast<std::int64_t>(value);
    }
  } catch (const std::exception&) {
  }
  throw InputError(where, "'" + text + "' is not a whole number of 0 or more", "write a number such as 100000000 or 1e8");
}

bool truth(const std::string& text, const std::string& where) {
  if (text == "true" || text == "on" || text == "1") return true;
  if (text == "false" || text == "off" || text == "0") return false;
  throw InputError(where, "'" + text + "' is neither true nor false", "write true or false");
}

Offload offload_named(const std::string& text, const std::string& where) {
  const auto it = std::find(offload_words.begin(), offload_words.end(), text);
  if (it == offload_words.end()) {
    throw InputError(where, "'" + text + "' is no kind of offload", "write none, optimizer, optimizer+param or nvme");
  }
  return static_cast<Offload>(it - offload_words.begin());
}

std::int64_t recompute_every(const std::string& text, const std::string& where) {
  if (text == "none") return 0;
  if (text == "full") return 1;
  if (text.rfind("every-", 0) == 0) return whole_number(text.substr(6), where);
  throw InputError(where, "'" + text + "' is no kind of recomputation", "write none, full or every-N");
}

}  // namespace

Axes default_axes(const Run& base, const Cluster& cluster, std::int64_t global_batch) {
  Axes axes;
  const auto sequences = global_batch / base.world_size;
  for (std::int64_t micro = 1; micro <= std::min<std::int64_t>(sequences, 64); ++micro) {
    const bool power_of_two = (micro & (micro - 1)) == 0;
    if (sequences % micro == 0 && (power_of_two || micro == sequences || micro % 3 == 0)) axes.micro_batches.push_back(micro);
  }
  axes.finetunes = {base.workload.finetune};
  axes.optimizers = {base.workload.optimizer};
  axes.fused_loss = {base.workload.kernels.fused_linear_cross_entropy};
  if (!cluster.node.nvme) axes.offloads.pop_back();
  if (base.versions.transformers < first_checkpointing_every_n_layers) axes.recompute = {0, 1};
  if (base.alloc_conf.find("expandable_segments") != std::string::npos) {
    axes.expandable_segments = {allocator_options(base).expandable_segments};
  }
  return axes;
}

void fix_axis(Axes& axes, const std::string& assignment) {
  const auto equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  const std::string where = "--fix " + assignment;
  if (equals == std::string::npos) throw InputError(where, "there is no value", "write KEY=VALUE, such as stage=3");
  const std::string value = assignment.substr(equals + 1);
  const std::map<std::string, std::vector<std::int64_t>*> numbers = {
      {"micro_batch", &axes.micro_batches}, {"reduce_bucket_size", &axes.reduce_buckets},
      {"sub_group_size", &axes.sub_groups}, {"stage3_max_live_parameters", &axes.max_live},
      {"stage3_max_reuse_distance", &axes.max_reuse}, {"stage3_prefetch_bucket_size", &axes.prefetch},
      {"stage3_param_persistence_threshold", &axes.persistence}};
  const std::map<std::string, std::vector<bool>*> switches = {{"expandable_segments", &axes.expandable_segments},
                                                              {"stage3_allgather_sequential", &axes.sequential},
                                                              {"fused_loss", &axes.fused_loss}};
  if (const auto it = numbers.find(key); it != numbers.end()) {
    *it->second = {whole_number(value, where)};
  } else if (const auto s = switches.find(key); s != switches.end()) {
    *s->second = {truth(value, where)};
  } else if (key == "overlap_comm") {
    axes.overlap_comm = {truth(value, where) ? Overlap::On : Overlap::Off};
  } else if (key == "stage") {
    const auto stage = whole_number(value, where);
    if (stage > 3) throw InputError(where, "there is no ZeRO stage " + value, "write 0, 1, 2 or 3");
    axes.stages = {static_cast<int>(stage)};
  } else if (key == "offload") {
    axes.offloads = {offload_named(value, where)};
  } else if (key == "recompute") {
    axes.recompute = {recompute_every(value, where)};
  } else {
    std::string known = "stage, offload, recompute, overlap_comm";
    for (const auto& [name, values] : numbers) known += ", " + name;
    for (const auto& [name, values] : switches) known += ", " + name;
    throw InputError(where, "'" + key + "' is nothing the search chooses", "use one of " + known);
  }
}

KnobGrid::KnobGrid(const Axes& a, int stage)
    : stage_(stage),
      expandable_(a.expandable_segments),
      sequential_(if_stage3(stage, a.sequential)),
      overlap_(stage == 0 ? std::vector<Overlap>{a.overlap_comm.front()} : a.overlap_comm),
      buckets_(stage == 0 ? std::vector<std::int64_t>{a.reduce_buckets.front()} : a.reduce_buckets),
      sub_groups_(if_stage3(stage, a.sub_groups)),
      max_live_(if_stage3(stage, a.max_live)),
      max_reuse_(if_stage3(stage, a.max_reuse)),
      prefetch_(if_stage3(stage, a.prefetch)),
      persistence_(if_stage3(stage, a.persistence)) {
  timeless_ = product(expandable_) * product(sub_groups_);
  size_ = timeless_ * product(buckets_) * product(max_live_) * product(max_reuse_) * product(prefetch_) *
          product(persistence_) * product(overlap_) * product(sequential_);
}

bool KnobGrid::overlap(Overlap said) const {
  if (said == Overlap::On || said == Overlap::Off) return said == Overlap::On;
  return (stage_ == 3) == (said == Overlap::Default);
}

void KnobGrid::set(std::int64_t index, Strategy& s) const {
  Digits digits(index);
  auto& z = s.ds.zero;
  s.expandable_segments = digits.next(expandable_);
  z.sub_group_size = digits.next(sub_groups_);
  z.reduce_bucket_size = digits.next(buckets_);
  z.stage3_max_live_parameters = digits.next(max_live_);
  z.stage3_max_reuse_distance = digits.next(max_reuse_);
  z.stage3_prefetch_bucket_size = digits.next(prefetch_);
  z.stage3_param_persistence_threshold = digits.next(persistence_);
  z.overlap_comm = overlap(digits.next(overlap_));
  z.stage3_allgather_sequential = digits.next(sequential_);
}

void KnobGrid::set_frugal(Strategy& s) const {
  set(0, s);
  auto& z = s.ds.zero;
  z.sub_group_size = *std::min_element(sub_groups_.begin(), sub_groups_.end());
  z.reduce_bucket_size = *std::min_element(buckets_.begin(), buckets_.end());
  for (const Overlap said : overlap_) z.overlap_comm = z.overlap_comm && overlap(said);
}

void KnobGrid::set_fastest(Strategy& s) const {
  set(0, s);
  auto& z = s.ds.zero;
  z.reduce_bucket_size = *std::max_element(buckets_.begin(), buckets_.end());
  z.stage3_max_live_parameters = *std::max_element(max_live_.begin(), max_live_.end());
  z.stage3_max_reuse_distance = *std::max_element(max_reuse_.begin(), max_reuse_.end());
  z.stage3_prefetch_bucket_size = *std::max_element(prefetch_.begin(), prefetch_.end());
  z.stage3_param_persistence_threshold = *std::max_element(persistence_.begin(), persistence_.end());
  for (const Overlap said : overlap_) z.overlap_comm = z.overlap_comm || overlap(said);
}

}  // namespace zplan
