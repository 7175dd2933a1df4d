// When a block that another stream still uses comes back: docs/memory-model.md#late-frees.
#include "step/recorder.h"

#include <algorithm>

#include "tests/catch.h"

using namespace zplan;

namespace {

// Frees that were complete before the last request, of one gathered block released behind a product of milliseconds.
std::ptrdiff_t completed(const std::string& last_operator) {
  Gpu gpu;
  gpu.memory_gb_per_s = 4800;
  gpu.bf16_tflops = 989;
  gpu.pcie_gb_per_s = 64;
  Recorder recorder({{"down: d", Component::Activations}, {"final norm: f.x32", Component::Activations}});
  recorder.use_clock(gpu);
  const auto last = recorder.label(last_operator, Component::Activations);
  const auto gathered = recorder.label("gathered", Component::GatheredParameters);
  const auto weight = recorder.allocate(100'000'000, gathered, -1, kGather);
  recorder.allocate(8, 1);
  recorder.allocate(8, 0);
  recorder.allocate(16'777'216, 0, -1, kCompute, 3e12);  // 5 ms
  recorder.record_stream(weight, kCompute);
  recorder.free(weight);
  recorder.allocate(16'777'216, last);
  const auto& events = recorder.history().events;
  return std::count_if(events.begin(), events.end(), [](const Event& e) { return e.action == Action::FreeCompleted; });
}

}  // namespace

TEST_CASE("a released block comes back late, unless the next operator's kernel has to be loaded first") {
  const auto [name, last_operator, expected] = GENERATE(table<std::string, std::string, std::ptrdiff_t>({
      {"the operator has run", "down: d", 0},
      {"the same kernel has run in another layer", "input norm: a.x32", 0},
      {"its kernel is new", "post norm: b.rs", 1},
  }));
  INFO(name);
  CHECK(completed(last_operator) == expected);
}
