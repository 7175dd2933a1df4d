#include "plan/watch.h"

#include <algorithm>
#include <functional>

#include "tests/catch.h"

using namespace zplan;

namespace {

using Codes = std::vector<std::string>;

// 30 GiB of torch's and 2 outside on two GPUs of 40 GiB; a step takes 10 s. The margin is 1.5 % of 40 GiB.
Prediction predicted() {
  Prediction p;
  p.model = "Qwen3-8B";
  p.gpu = "A100-SXM4-40GB";
  p.capacity = GiB(40);
  p.gpus_per_node = 2;
  p.reserved = GiB(30);
  p.outside = GiB(2);
  p.rank_difference = Bytes{};
  p.step = Seconds{10};
  p.curve = {{-1, "load", GiB(10), GiB(10)},
             {-1, "init", GiB(20), GiB(18)},
             {0, "forward", GiB(26), GiB(26)},
             {0, "backward", GiB(32), GiB(32)}};
  return p;
}
const Bytes margin = Bytes{GiB(40).count * 15 / 1000};

GpuSample gpu(std::int64_t index, Bytes job, Bytes others = MiB(500)) {
  GpuSample s{index, "GPU-" + std::to_string(index), "A100-SXM4-40GB", GiB(40), job + others, {}};
  if (job.count > 0) s.job.push_back({1000 + index, job, index});
  return s;
}

Codes codes(const Watch& watch) {
  Codes out;
  for (const auto& n : watch.warnings()) out.push_back(n.code);
  return out;
}

// Two GPUs, a sample a second, the memory of each by second.
Watch watched(int seconds, const std::function<Bytes(int)>& first, const std::function<Bytes(int)>& second,
              Prediction p = predicted()) {
  Watch w(std::move(p), {});
  for (int i = 0; i < seconds; ++i) w.observe(Seconds{static_cast<double>(i)}, {gpu(0, first(i)), gpu(1, second(i))});
  return w;
}
auto steady(Bytes b) {
  return [b](int) { return b; };
}

}  // namespace

TEST_CASE("what a watched job is warned about, each once", "[plan]") {
  struct Row {
    const char* name;
    std::function<Watch()> watch;
    Codes expected;
    bool left_prediction;
  };
  const Bytes at = GiB(32);
  const auto row = GENERATE_COPY(values<Row>({
      {"as predicted", [=] { return watched(300, steady(at), steady(at)); }, {}, false},
      {"at the margin", [=] { return watched(300, steady(at + margin), steady(at)); }, {}, false},
      {"a byte above it",
       [=] { return watched(300, steady(at + margin + Bytes{1}), steady(at + margin)); },
       {"above-prediction"},
       true},
      {"both above",
       [=] { return watched(300, steady(GiB(34)), steady(GiB(34))); },
       {"above-prediction", "above-prediction"},
       true},
      {"ranks a margin apart", [=] { return watched(300, steady(at), steady(at - margin)); }, {}, false},
      {"ranks a byte further apart",
       [=] { return watched(300, steady(at), steady(at - margin - Bytes{1})); },
       {"ranks-differ"},
       true},
      {"ranks apart in the warm-up only",
       [=] {
         return watched(
             45, [=](int i) { return i < 20 ? GiB(5) : at; }, [=](int i) { return i < 3 ? GiB(5) : at; });
       },
       {},
       false},
      {"ranks as far apart as predicted",
       [=] {
         auto p = predicted();
         p.rank_difference = GiB(3);
         return watched(300, steady(at), steady(GiB(29)), p);
       },
       {},
       false},
      {"ranks apart, and no prediction of it",
       [=] {
         auto p = predicted();
         p.rank_difference.reset();
         return watched(300, steady(at), steady(GiB(25)), p);
       },
       {},
       false},
      {"40 MiB a step",
       [=] {
         const auto grows = [](int i) { return GiB(31) + MiB(40) * (i / 10); };
         return watched(180, grows, grows);
       },
       {"growing", "growing"},
       true},
      {"the same before init is done",
       [=] {
         return watched(
             100, [=](int i) { return GiB(3) + MiB(100) * i; }, steady(GiB(31)));
       },
       {},
       false},
      {"one jump",
       [=] {
         const auto jumps = [=](int i) { return i < 100 ? GiB(31) : at; };
         return watched(600, jumps, steady(GiB(31) + MiB(512)));
       },
       {},
       false},
      {"no process for a minute", [=] { return watched(62, steady({}), steady({})); }, {"no-process"}, false},
      {"not yet a minute", [=] { return watched(60, steady({}), steady({})); }, {}, false},
      {"a rank is missing for a minute",
       [=] { return watched(70, steady(at), steady({})); },
       {"missing-ranks"},
       false},
      {"others leave no room",
       [=] {
         Watch w(predicted(), {});
         w.observe(Seconds{0}, {gpu(0, at, GiB(7)), gpu(1, at, GiB(9))});
         return w;
       },
       {"others-use"},
       false},
      {"another GPU",
       [=] {
         Watch w(predicted(), {});
         auto a = gpu(0, at), b = gpu(1, at);
         a.name = b.name = "H200";
         w.observe(Seconds{0}, {a, b});
         return w;
       },
       {"other-gpu"},
       false},
      {"fewer GPUs",
       [=] {
         Watch w(predicted(), {});
         w.observe(Seconds{0}, {gpu(0, at)});
         return w;
       },
       {"fewer-gpus"},
       false},
      {"a GPU is lost",
       [=] {
         Watch w(predicted(), {});
         w.observe(Seconds{0}, {gpu(0, at), gpu(1, at)});
         w.observe(Seconds{1}, {gpu(0, at)});
         return w;
       },
       {"gpu-lost"},
       false},
      {"the driver does not say",
       [=] {
         Watch w(predicted(), {});
         auto a = gpu(0, at), b = gpu(1, at);
         a.job.front().used.reset();
         b.job.front().used.reset();
         w.observe(Seconds{0}, {a, b});
         return w;
       },
       {"process-memory-unknown"},
       false},
  }));
  INFO(row.name);
  const Watch w = row.watch();
  CHECK(codes(w) == row.expected);
  CHECK(w.left_prediction() == row.left_prediction);
  for (const auto& code : row.expected) {
    CHECK(std::count(Watch::codes().begin(), Watch::codes().end(), code) == 1);
  }
  for (const auto& n : w.warnings()) CHECK(!n.fix.empty());
}

TEST_CASE("the peak predicted is no more than the GPU has", "[plan]") {
  auto p = predicted();
  p.reserved = GiB(39);  // without a limit; the allocator gives back what it caches before the device is full
  CHECK(p.peak() == GiB(40));
  CHECK(predicted().peak() == GiB(32));
  CHECK(predicted().after_init() == GiB(18));
}

TEST_CASE("what is counted: the job's processes, or the device with --all", "[plan]") {
  Watch job(predicted(), {});
  const auto s = job.observe(Seconds{0}, {gpu(0, GiB(12), GiB(3)), gpu(1, {}, GiB(3))});
  CHECK(s.gpus[0].used == GiB(12));
  CHECK(s.gpus[0].others == GiB(3));
  CHECK(s.gpus[0].headroom() == GiB(25));
  CHECK(s.gpus[0].rank == 0);
  CHECK(s.gpus[0].reached == "init");
  CHECK(!s.gpus[1].in_job);
  WatchOptions all;
  all.whole_device = true;
  Watch device(predicted(), all);
  const auto d = device.observe(Seconds{0}, {gpu(0, GiB(12), GiB(20)), gpu(1, {}, MiB(600))});
  CHECK(d.gpus[0].used == GiB(32));
  CHECK(d.gpus[0].others == Bytes{});
  CHECK(d.gpus[0].reached == "backward of step 0");
  CHECK(!d.gpus[1].in_job);  // the driver's own
}

TEST_CASE("a warning says what, where, and what to do", "[plan]") {
  const auto grows = [](int i) { return GiB(31) + MiB(20) * (i / 10); };
  const Watch w = watched(300, grows, grows);
  REQUIRE(w.warnings().size() == 2);
  CHECK(w.warnings()[0].text.rfind("GPU 0 (rank 0) grows by 0.1 GiB a minute, some 20.0 MiB a step (", 0) == 0);
  CHECK(watched(1, steady(GiB(34)), steady(GiB(32))).warnings()[0].text ==
        "GPU 0 (rank 0) uses 34.0 GiB, 2.0 GiB more than the 32.0 GiB predicted.");
}
