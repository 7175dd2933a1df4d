#include "probe/micro.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "device.h"
#include "zero/adam.h"
#include "zero/engine.h"

namespace zplan::trainer {
namespace {

using nlohmann::json;
using Work = std::function<void()>;

// Median seconds of one repetition; as many repetitions as fill about `budget_s`.
double time_of(const Work& work, at::Device device, double budget_s) {
  using Clock = std::chrono::steady_clock;
  const auto once = [&] {
    synchronize(device);
    const auto start = Clock::now();
    Stopwatch watch(Lane::current(device));
    work();
    const auto on_device = watch.stop();
    return on_device ? *on_device : std::chrono::duration<double>(Clock::now() - start).count();
  };
  once();  // the first loads kernels, plans and connections
  std::vector<double> times{once()};
  const std::size_t more =
      static_cast<std::size_t>(std::clamp(budget_s / std::max(times[0], 1e-6), 2.0, 30.0));
  while (times.size() < more) times.push_back(once());
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

json matmuls(const Plan& plan, at::Device device) {
  const Model& m = plan.run.model;
  const std::int64_t tokens = plan.run.tokens();
  const auto options = at::TensorOptions().dtype(scalar_type(plan.run.ds.precision)).device(device);
  json rates = json::array();
  const auto measure = [&](const char* name, std::int64_t rows, std::int64_t in, std::int64_t out) {
    const at::Tensor x = at::randn({rows, in}, options), w = at::randn({out, in}, options);
    const double s = time_of([&] { at::mm(x, w.t()); }, device, 0.3);
    const double flops =
        2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
    rates.push_back({{"what", name},
                     {"m", rows},
                     {"n", out},
                     {"k", in},
                     {"seconds", s},
                     {"tflops", flops / s / 1e12}});
  };
  measure("q_proj", tokens, m.hidden, m.attention_width());
  measure("k_proj", tokens, m.hidden, m.kv_width());
  measure("gate_proj", tokens, m.hidden, m.intermediate);
  measure("down_proj", tokens, m.intermediate, m.hidden);
  measure("lm_head", tokens, m.hidden, m.vocab);
  return rates;
}

json copies(at::Device device) {
  constexpr std::int64_t kBytes = 256 << 20;
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device);
  const at::Tensor here = at::zeros({kBytes}, bytes), there = at::zeros({kBytes}, bytes);
  const double gb = kBytes / 1e9;
  json rates = {{"bytes", kBytes}};
  rates["device_copy_gb_per_s"] = 2 * gb / time_of([&] { there.copy_(here); }, device, 0.2);
  for (const bool pinned : {true, false}) {
    const at::Tensor host = host_empty({kBytes}, at::kByte, device, pinned).zero_();
    const std::string kind = pinned ? "pinned" : "pageable";
    rates["h2d_" + kind + "_gb_per_s"] = gb / time_of([&] { here.copy_(host, true); }, device, 0.4);
    rates["d2h_" + kind + "_gb_per_s"] = gb / time_of([&] { host.copy_(here, true); }, device, 0.4);
  }
  return rates;
}

json cpu_adam(const Plan& plan) {
  constexpr std::int64_t kElements = 32 << 20;
  const at::Tensor master = at::zeros({kElements}, at::kFloat),
                   gradient = at::ones({kElements}, at::kFloat);
  AdamState state;
  const double s = time_of([&] { adam_step(plan.adam, master, gradient, state); }, at::kCPU, 1.0);
  return {{"elements", kElements},
          {"seconds", s},
          {"elements_per_second", static_cast<double>(kElements) / s}};
}

json collectives(const Rank& rank) {
  json rates = json::array();
  Communicator& c = *rank.communicator;
  for (std::int64_t bytes = 8 << 10; bytes <= (std::int64_t{512} << 20); bytes *= 4) {
    const std::int64_t n = bytes / 2 / c.size() * c.size();
    const at::Tensor all =
        at::zeros({n}, at::TensorOptions().dtype(at::kBFloat16).device(rank.device));
    const at::Tensor mine = all.narrow(0, c.rank() * (n / c.size()), n / c.size());
    const auto measure = [&](const char* name, double traffic, const Work& work) {
      // The same number of repetitions on every rank, or they would wait for each other forever.
      synchronize(rank.device);
      c.barrier();
      double seconds = 1e9;
      for (int i = 0; i < 8; ++i) {
        Stopwatch watch(Lane::current(rank.device));
        const auto start = std::chrono::steady_clock::now();
        work();
        const auto on_device = watch.stop();
        const double s =
            on_device
                ? *on_device
                : std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (i >= 2) seconds = std::min(seconds, s);
      }
      rates.push_back({{"what", name},
                       {"bytes", 2 * n},
                       {"seconds", seconds},
                       {"bus_gb_per_s", traffic * 2.0 * static_cast<double>(n) / seconds / 1e9}});
    };
    const double part = static_cast<double>(c.size() - 1) / c.size();
    measure("all_reduce", 2 * part, [&] { c.all_reduce(all); });
    measure("all_gather", part, [&] { c.all_gather(all, mine); });
    measure("reduce_scatter", part, [&] { c.reduce_scatter(mine, all); });
  }
  return rates;
}

}  // namespace

json measure_rates(const Plan& plan, const Rank& rank) {
  const at::NoGradGuard no_graph;
  json profile = {{"cpu_adam", cpu_adam(plan)}};
  profile["matmul"] = matmuls(plan, rank.device);
  if (rank.device.is_cuda()) profile["copy"] = copies(rank.device);
  // A stand-in moves nothing, and shared memory says nothing about a network.
  if (rank.communicator->kind() == "nccl" && rank.communicator->size() > 1)
    profile["collectives"] = collectives(rank);
  empty_cache(rank.device);
  return profile;
}

}  // namespace zplan::trainer
