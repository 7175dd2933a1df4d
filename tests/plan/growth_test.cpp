#include "plan/growth.h"

#include <cmath>
#include <functional>

#include "tests/catch.h"

using namespace zplan;

namespace {

// Memory in MiB by sample; a sample a second, ten of them a window.
GrowthDetector watched(const std::function<double(int)>& mib, int samples) {
  GrowthDetector d(Seconds{10}, MiB(64));
  for (int i = 0; i < samples; ++i) {
    d.add(Seconds{static_cast<double>(i)}, Bytes{static_cast<std::int64_t>(mib(i) * 1024 * 1024)});
  }
  return d;
}

}  // namespace

TEST_CASE("growth is what raises window after window, not a jump, a warm-up or the ups and downs of a step",
          "[plan]") {
  struct Row {
    const char* name;
    std::function<double(int)> mib;  // by second
    int seconds;
    double mib_per_second;  // 0: no growth
  };
  const auto row = GENERATE(values<Row>({
      {"flat", [](int) { return 30000.0; }, 1000, 0},
      {"a step's ups and downs", [](int i) { return 30000.0 + 2000 * (i % 7); }, 1000, 0},
      {"one jump", [](int i) { return i < 100 ? 30000.0 : 34000.0; }, 1000, 0},
      {"two jumps", [](int i) { return i < 100   ? 30000.0
                                       : i < 130 ? 32000.0
                                                 : 34000.0; }, 1000, 0},
      {"a warm-up that slows down", [](int i) { return 34000 - 4000 * std::exp(-i / 20.0); }, 1000, 0},
      {"it falls", [](int i) { return 30000.0 - i; }, 1000, 0},
      {"a rise of less than 64 MiB", [](int i) { return 30000.0 + 0.01 * i; }, 1000, 0},
      {"too short to say", [](int i) { return 30000.0 + 10 * i; }, 60, 0},
      {"2 MiB a second", [](int i) { return 30000.0 + 2 * i; }, 200, 2},
      {"2 MiB a second beneath the ups and downs of a step", [](int i) { return 30000.0 + 2 * i + 2000 * (i % 5); },
       200, 2},
      {"a segment of 20 MiB every 70 seconds", [](int i) { return 30000.0 + 20 * (i / 70); }, 3600, 20.0 / 70},
  }));
  INFO(row.name);
  const auto growth = watched(row.mib, row.seconds).growth();
  REQUIRE(growth.has_value() == (row.mib_per_second > 0));
  if (growth) CHECK(growth->bytes_per_second / 1024 / 1024 == Approx(row.mib_per_second).epsilon(0.15));
}

TEST_CASE("the rate and the rise are those of the windows looked at", "[plan]") {
  const auto growth =
      watched([](int i) { return 1000.0 + 3 * i; }, 61).growth();  // six windows: highest at 9 ... 59 s
  REQUIRE(growth);
  CHECK(growth->rise == MiB(150));
  CHECK(growth->over == Seconds{50});
  CHECK(growth->bytes_per_second == Approx(3 * 1024 * 1024));
}

TEST_CASE("growth that ends is forgotten", "[plan]") {
  CHECK(watched([](int i) { return 30000.0 + 2 * std::min(i, 300); }, 300).growth());
  CHECK(!watched([](int i) { return 30000.0 + 2 * std::min(i, 300); }, 3000).growth());
}
