#include "plan/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "time/optimizer.h"
#include "time/rates.h"
#include "time/step_time.h"

namespace zplan {
namespace {

// How far a kernel alone is from the same kernel in a training step: other neighbours, clocks and shapes. A copy is
// the same copy there, a collective nearly so.
constexpr double kernel_noise = 0.10, collective_noise = 0.05, copy_noise = 0.03;
// Smaller products and kernels, timed one by one between two events, show the host's launch and not their own time.
constexpr double large_flops = 1e11, large_elements = 1e7;
constexpr double long_sequence = 8192;
constexpr double large_message = 32e6, small_message = 1e6;
// A layer of so few tokens waits for the host, one of so many for the GPU.
constexpr std::int64_t few_tokens = 64, many_tokens = 4096;

using Predict = std::function<double(const TimeCoefficients&)>;

// Geometric means of what is predicted and measured for some rows.
class Mean {
 public:
  Mean(std::string name, double noise) {
    group_.name = std::move(name);
    group_.noise = {noise};
  }
  void add(double seconds, Predict predict) {
    logs_ += std::log(seconds);
    rows_.push_back(std::move(predict));
  }
  void into(std::vector<MeasuredGroup>& groups) && {
    if (rows_.empty()) return;
    const double n = static_cast<double>(rows_.size());
    group_.seconds = {std::exp(logs_ / n)};
    group_.predict = [rows = std::move(rows_), n](const TimeCoefficients& c) {
      double logs = 0;
      for (const Predict& row : rows) logs += std::log(row(c));
      return std::vector<double>{std::exp(logs / n)};
    };
    groups.push_back(std::move(group_));
  }

 private:
  MeasuredGroup group_;
  std::vector<Predict> rows_;
  double logs_ = 0;
};

void add_products(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  Mean mean(m.id + ": large products", kernel_noise);
  for (const auto& p : m.products) {
    if (2 * p.m * p.n * p.k < large_flops) continue;
    mean.add(p.seconds, [p, gpu = m.cluster.node.gpu, precision = m.precision](const TimeCoefficients& c) {
      return gpu_rates(gpu, precision, Attention::Sdpa, c)
          .matmul_seconds(p.m, p.n, p.k, precision == Precision::Fp32 ? 4 : 2);
    });
  }
  std::move(mean).into(groups);
}

void add_attention(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  Mean forward_mean(m.id + ": attention", kernel_noise), backward_mean(m.id + ": attention backward", kernel_noise);
  for (const auto& a : m.attention) {
    if (a.tokens < long_sequence) continue;
    const auto forward = [a, gpu = m.cluster.node.gpu, precision = m.precision](const TimeCoefficients& c) {
      return 2 * a.batch * a.tokens * a.tokens * a.width /
             gpu_rates(gpu, precision, Attention::Sdpa, c).attention_rate(a.tokens);
    };
    forward_mean.add(a.forward_s, forward);
    backward_mean.add(a.backward_s,
                      [forward](const TimeCoefficients& c) { return forward(c) * 2.5 / c.attention_backward.value; });
  }
  std::move(forward_mean).into(groups);
  std::move(backward_mean).into(groups);
}

void add_element_wise(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  Mean streamed(m.id + ": kernels that stream", kernel_noise), widened(m.id + ": kernels that widen", kernel_noise);
  for (const auto& k : m.element_wise) {
    if (k.elements < large_elements) continue;
    const Traffic traffic = k.widens ? Traffic{0, k.elements} : Traffic{k.bytes, 0};
    (k.widens ? widened : streamed).add(k.seconds, [traffic, gpu = m.cluster.node.gpu](const TimeCoefficients& c) {
      return gpu_rates(gpu, Precision::Bf16, Attention::Sdpa, c).seconds(traffic);
    });
  }
  std::move(streamed).into(groups);
  std::move(widened).into(groups);
}

// Few threads and all of them: the first is limited by the threads, the second by the host's memory.
void add_cpu_steps(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  Mean copies(m.id + ": pageable copies", kernel_noise);
  for (const auto& s : m.cpu_steps) {
    const auto seconds = [s, cluster = m.cluster, precision = m.precision](double OptimizerSeconds::*part) {
      return [s, cluster, precision, part](const TimeCoefficients& c) {
        Run run;
        run.gpu = cluster.node.gpu;
        run.ds.precision = precision;
        run.ds.zero.stage = 3;
        run.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
        run.cpu_threads = static_cast<std::int64_t>(s.threads);
        ModelShape shape;
        shape.trainable = static_cast<std::int64_t>(s.elements);
        return optimizer_seconds(run, cluster, shape, {}, gpu_rates(run.gpu, precision, Attention::Sdpa, c), c).*part;
      };
    };
    Mean passes(m.id + ": CPU step, " + std::to_string(static_cast<std::int64_t>(s.threads)) + " threads a rank", kernel_noise);
    passes.add(s.passes_s, seconds(&OptimizerSeconds::cpu));
    std::move(passes).into(groups);
    copies.add(s.pageable_s, seconds(&OptimizerSeconds::copy_up));
  }
  std::move(copies).into(groups);
}

// One layer's share of a phase: what three layers take more than one, halved. No strategy: one rank without ZeRO.
Predict layer_seconds(const MeasuredRates& m, const MeasuredRates::Layer& l, double StepTime::*phase) {
  Run run;
  run.gpu = m.cluster.node.gpu;
  run.model.model_type = "qwen3";
  run.model.hidden = l.hidden;
  run.model.intermediate = l.intermediate;
  run.model.heads = l.heads;
  run.model.kv_heads = 8;
  run.model.head_dim = 128;
  run.model.vocab = 1024;
  run.model.qk_norm = true;
  run.workload.seq_len = std::min<std::int64_t>(l.tokens, 2048);
  run.ds.train_micro_batch_size_per_gpu = std::max<std::int64_t>(1, l.tokens / run.workload.seq_len);
  run.ds.precision = m.precision;
  return [run, cluster = m.cluster, phase](const TimeCoefficients& c) mutable {
    run.model.layers = 1;
    const double one = predict_step_time(run, cluster, c).*phase;
    run.model.layers = 3;
    return (predict_step_time(run, cluster, c).*phase - one) / 2;
  };
}

void add_layers(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  Mean host(m.id + ": layers of few tokens", kernel_noise), forward(m.id + ": layers, forward", kernel_noise),
      backward(m.id + ": layers, backward", kernel_noise);
  for (const auto& l : m.layers) {
    const Predict predict_forward = layer_seconds(m, l, &StepTime::forward_s);
    const Predict predict_backward = layer_seconds(m, l, &StepTime::last_backward_s);
    if (l.tokens <= few_tokens) {
      host.add(l.forward_s, predict_forward);
      host.add(l.backward_s, predict_backward);
    } else if (l.tokens >= many_tokens) {
      forward.add(l.forward_s, predict_forward);
      backward.add(l.backward_s, predict_backward);
    }
  }
  std::move(host).into(groups);
  std::move(forward).into(groups);
  std::move(backward).into(groups);
}

void add_links(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  const Node& node = m.cluster.node;
  const double ranks = static_cast<double>(node.gpus);
  const auto card = [rate = node.gpu.pcie_gb_per_s](const TimeCoefficients& c) {
    return 1e9 * rate * c.pcie_fraction.value;
  };
  if (m.link_bytes_per_s) {
    Mean one(m.id + ": copies of one GPU", copy_noise);
    one.add(1 / *m.link_bytes_per_s, [card](const TimeCoefficients& c) { return 1 / card(c); });
    std::move(one).into(groups);
  }
  if (m.all_links_bytes_per_s) {
    Mean all(m.id + ": copies of all GPUs", copy_noise);
    all.add(1 / *m.all_links_bytes_per_s, [card, ranks](const TimeCoefficients& c) {
      return 1 / std::min(card(c), 1e9 * c.host_copy_gb_per_s.value / ranks);
    });
    std::move(all).into(groups);
  }
}

void add_sent(const MeasuredRates& m, std::vector<MeasuredGroup>& groups) {
  std::vector<std::int64_t> worlds;
  for (const auto& s : m.sent) worlds.push_back(s.ranks);
  std::sort(worlds.begin(), worlds.end());
  worlds.erase(std::unique(worlds.begin(), worlds.end()), worlds.end());
  for (const std::int64_t world : worlds) {
    const std::string of = m.id + ": " + std::to_string(world) + " ranks, ";
    Mean moved(of + "large gathers and scatters", collective_noise),
        reduced(of + "large all-reduces", collective_noise), small(of + "small collectives", collective_noise);
    for (const auto& s : m.sent) {
      if (s.ranks != world || (s.bytes > small_message && s.bytes < large_message)) continue;
      Mean& to = s.bytes <= small_message ? small : s.kind == Collective::AllReduce ? reduced : moved;
      to.add(s.seconds, [s, cluster = m.cluster](const TimeCoefficients& c) {
        return collective_seconds(fabric(cluster, s.ranks, c), s.kind, s.bytes, 1);
      });
    }
    std::move(moved).into(groups);
    std::move(reduced).into(groups);
    std::move(small).into(groups);
  }
}

}  // namespace

std::vector<MeasuredGroup> measured_groups(const MeasuredRates& m) {
  std::vector<MeasuredGroup> groups;
  add_products(m, groups);
  add_attention(m, groups);
  add_element_wise(m, groups);
  add_cpu_steps(m, groups);
  add_layers(m, groups);
  add_links(m, groups);
  add_sent(m, groups);
  return groups;
}

}  // namespace zplan
