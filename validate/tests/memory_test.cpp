// What stays allocated, counted by an allocator in front of torch's own for the CPU: the same operators keep the
// same tensors there as on a GPU, but for the attention kernel's workspace and random state.
#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "collectives/stand_in.h"
#include "data/corpus.h"
#include "data/weights.h"
#include "model/decoder.h"
#include "runs.h"
#include "tests/catch.h"
#include "zero/engine.h"

namespace zplan::trainer {
namespace {

// Data and context must be one pointer (raw_allocate asks for it), so the count stands in front of the data.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = std::aligned_alloc(kAlignment, (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment);
    if (!memory) throw std::bad_alloc();
    new (memory) Header{static_cast<std::int64_t>(bytes), this};
    live += static_cast<std::int64_t>(bytes);
    peak = std::max(peak.load(), live.load());
    void* data = static_cast<char*>(memory) + kAlignment;
    return {data, data, &release, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t n) const override { std::memcpy(to, from, n); }

  std::atomic<std::int64_t> live{0}, peak{0};

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Header {
    std::int64_t bytes;
    CountingAllocator* owner;
  };
  static void release(void* data) {
    if (!data) return;
    void* memory = static_cast<char*>(data) - kAlignment;
    const Header header = *static_cast<Header*>(memory);
    header.owner->live -= header.bytes;
    std::free(memory);
  }
};

// In front of torch's allocator from its first use to the end of the program: tensors made in between outlive
// any scope.
CountingAllocator& counter() {
  static auto* allocator = [] {
    auto* counting = new CountingAllocator;
    c10::SetCPUAllocator(counting, /*priority=*/1);
    return counting;
  }();
  return *allocator;
}

constexpr std::int64_t kTokens = 32;

Model model(std::int64_t layers) {
  Model m = tiny_plan().run.model;
  m.hidden = 64;
  m.intermediate = 160;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 16;
  m.layers = layers;
  return m;
}

// Bytes that one forward in bf16 leaves behind for backward.
std::int64_t kept(std::int64_t layers, std::int64_t recompute_every) {
  DecoderOptions options;
  options.recompute.every = recompute_every;
  const Decoder decoder(model(layers), options);
  const auto weights = random_weights(1);
  for (const auto& p : decoder.parameters()) {
    p->value = weights->value(*p, at::kBFloat16, at::kCPU).requires_grad_(true);
  }
  const at::Tensor ids = synthetic_corpus(96, 1)->sequences(0, 1, kTokens);
  const std::int64_t before = counter().live;
  const at::Tensor loss = decoder.loss(ids);
  return counter().live - before;
}

struct Held {
  std::int64_t parameters = 0;                              // elements
  std::int64_t init = 0, stepped = 0, step_peak = 0;        // bytes; the peak is beyond what is held before the step
};

Held held(int stage, std::int64_t world, std::int64_t rank, bool offload) {
  counter();
  const auto communicator = stand_in_communicator(static_cast<int>(rank), static_cast<int>(world));
  EngineSetup setup;
  setup.communicator = communicator.get();
  setup.ds.zero.stage = stage;
  setup.ds.zero.reduce_bucket_size = 4096;
  setup.ds.zero.stage3_param_persistence_threshold = 0;
  if (offload) setup.ds.zero.offload_optimizer.device = OffloadDevice::Cpu;
  Held result;
  const std::int64_t before = counter().live;
  Decoder decoder(model(2), {});
  ParameterList parameters;
  for (const auto& p : decoder.parameters()) {
    parameters.push_back(p.get());
    result.parameters += p->numel;
  }
  const auto engine = make_engine(setup, parameters);
  const auto weights = random_weights(1);
  for (Parameter* p : parameters) engine->adopt(*p, weights->value(*p, at::kBFloat16, at::kCPU));
  engine->initialize();
  decoder.set_hooks(engine->hooks());
  result.init = counter().live - before;
  for (int step = 0; step < 3; ++step) {
    engine->before_forward();
    engine->backward(decoder.loss(synthetic_corpus(96, 1)->sequences(step, 1, kTokens)));
    const std::int64_t start = counter().live;
    counter().peak = start;
    REQUIRE(engine->step());
    result.step_peak = counter().peak - start;
  }
  result.stepped = counter().live - before;
  return result;
}

}  // namespace

TEST_CASE("a layer keeps for backward what a layer of transformers keeps", "[validate][memory]") {
  counter();
  const Model m = model(1);
  const std::int64_t H = m.hidden, A = m.attention_width(), K = m.kv_width(), F = m.intermediate, h = m.heads,
                     g = m.kv_heads;
  // Per token, by tensor: norms 8H + 4 each (fp32 input, factor, bf16 output twice), rotary's and attention's
  // inputs and outputs, row sums of attention, gate, its silu, up and their product.
  const std::int64_t full = 16 * H + 8 + 10 * A + 10 * K + 8 * h + 4 * g + 8 * F;
  CHECK(kept(4, 0) - kept(3, 0) == kTokens * full);
  CHECK(kept(4, 1) - kept(3, 1) == kTokens * 2 * H);            // checkpointed: the boundary alone
  CHECK(kept(4, 2) - kept(3, 2) == kTokens * full);             // of layers 0..3, 0 and 2 are checkpointed
}

TEST_CASE("weights, gradients and optimizer states take the bytes of their stage", "[validate][memory]") {
  struct Row { const char* name; int stage; std::int64_t world, rank; bool offload; };
  for (const Row& row : {Row{"stage 0", 0, 1, 0, false}, Row{"stage 1", 1, 4, 1, false}, Row{"stage 2", 2, 4, 3, false},
                         Row{"stage 2, one rank", 2, 1, 0, false}, Row{"stage 3", 3, 4, 0, false}}) {
    INFO(row.name);
    const Held h = held(row.stage, row.world, row.rank, row.offload);
    const std::int64_t all = h.parameters, part = all / row.world, scalar = 4;  // a step count
    REQUIRE(all % (2 * row.world) == 0);
    switch (row.stage) {
      case 0:
        CHECK(h.init == 2 * all + 12 * all + scalar);
        CHECK(h.stepped == h.init);
        CHECK(h.step_peak >= 8 * all - 2 * all);  // fp32 copies and their concatenation, while gradients go
        break;
      case 3:
        CHECK(h.init == 2 * part + 4 * part + 2 * part + 2 * 4096);  // weights, master, gradients, bucket
        CHECK(h.stepped == h.init + 8 * part + scalar);
        CHECK(h.step_peak >= 6 * part);
        CHECK(h.step_peak < 7 * part);
        break;
      default:
        CHECK(h.init == 2 * all + 4 * part);
        CHECK(h.stepped == h.init + 8 * part + scalar);
        break;
    }
  }
}

}  // namespace zplan::trainer
