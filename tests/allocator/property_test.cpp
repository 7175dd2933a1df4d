// Random programs under random options: every promise holds after every event.
#include <random>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/capacity.h"
#include "allocator/replay.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

AllocatorOptions random_options(std::mt19937& random) {
  AllocatorOptions o;
  o.rules = allocator_rules({2, static_cast<int>(6 + random() % 8)});
  o.expandable_segments = random() % 3 == 0;
  if (random() % 3 == 0) o.max_split_size = (20 + random() % 60) * kMiB;
  if (random() % 3 == 0) o.roundup_power2_divisions.fill(std::int64_t{1} << (random() % 5));
  if (random() % 2) o.capacity_limit = MiB(40 + static_cast<std::int64_t>(random() % 400));
  if (random() % 3 == 0) o.garbage_collection_threshold = 0.5;
  if (random() % 3 == 0)
    o.device_free = o.device_total = MiB(60 + static_cast<std::int64_t>(random() % 400));
  return o;
}

std::int64_t random_size(std::mt19937& random) {
  const std::int64_t border[] = {512, kMiB, 2 * kMiB, 10 * kMiB, 20 * kMiB};
  if (random() % 2) return border[random() % 5] + static_cast<std::int64_t>(random() % 5) - 2;
  return 1 + static_cast<std::int64_t>(random() % (1u << (4 + random() % 22)));
}

}  // namespace

TEST_CASE("after every event chains, lists and sums agree", "[allocator]") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    CachingAllocator a(random_options(random));
    std::vector<BlockIndex> live;
    std::vector<BlockIndex> pending;
    for (int event = 0; event < 400; ++event) {
      const auto any = [&](std::vector<BlockIndex>& from) {
        std::swap(from[random() % from.size()], from.back());
        const BlockIndex b = from.back();
        from.pop_back();
        return b;
      };
      const auto roll = random() % 100;
      const std::int64_t synchronised = a.statistics().num_sync_all_streams;
      if (roll < 52) {
        const std::int64_t bytes = random_size(random);
        const BlockIndex b = a.allocate(bytes, static_cast<StreamId>(random() % 3));
        if (b != kNoBlock) {
          live.push_back(b);
          REQUIRE(a.block(b).size >= bytes);
        } else {
          REQUIRE(a.out_of_memory()->requested == Bytes{bytes});
        }
      } else if (roll < 85 && !live.empty()) {
        a.free(any(live));
      } else if (roll < 92 && !live.empty()) {
        const BlockIndex b = any(live);
        a.free_requested(b);
        pending.push_back(b);
      } else if (roll < 98 && !pending.empty()) {
        a.free_completed(any(pending));
      } else {
        a.empty_cache();
      }
      if (a.statistics().num_sync_all_streams != synchronised) pending.clear();
      INFO("seed " << seed << ", event " << event);
      REQUIRE(a.check() == "");
    }
    for (const BlockIndex b : live) a.free(b);
    a.empty_cache();
    REQUIRE(a.statistics().reserved_bytes.current() == 0);
    REQUIRE(a.snapshot().empty());
  }
}

TEST_CASE("the smallest capacity completes, and one step below does not", "[allocator]") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    INFO(seed);
    std::mt19937 random(seed);
    std::vector<Event> events;
    std::vector<std::pair<BlockId, std::int64_t>> live;
    std::int64_t bytes_live = 0;
    for (BlockId id = 0; id < 300; ++id) {
      const std::int64_t bytes = random_size(random);
      events.push_back({Action::Allocate, static_cast<StreamId>(random() % 2), id, bytes});
      live.emplace_back(id, bytes);
      bytes_live += bytes;
      while (bytes_live > 200 * kMiB) {
        std::swap(live[random() % live.size()], live.back());
        events.push_back({Action::Free, 0, live.back().first, 0});
        bytes_live -= live.back().second;
        live.pop_back();
      }
    }
    AllocatorOptions options;
    options.expandable_segments = random() % 2;
    const Bytes capacity = smallest_capacity(events, options);
    options.capacity_limit = capacity;
    const Replay fits = replay(events, options);
    CHECK_FALSE(fits.oom);
    CHECK(fits.allocated_peak <= capacity);
    options.capacity_limit = capacity - MiB(2);
    CHECK(replay(events, options).oom);
    options.capacity_limit.reset();
    if (!options.expandable_segments) CHECK(replay(events, options).reserved_peak >= capacity);
  }
}

TEST_CASE("the pool of a request and its segment", "[allocator]") {
  struct Row {
    std::int64_t bytes, block, segment;
    Pool pool;
  };
  const Row row = GENERATE(values<Row>({
      {1, 512, 2 * kMiB, Pool::Small},
      {512, 512, 2 * kMiB, Pool::Small},
      {513, 1024, 2 * kMiB, Pool::Small},
      {kMiB, kMiB, 2 * kMiB, Pool::Small},
      {kMiB + 1, kMiB + 512, 20 * kMiB, Pool::Large},
      {10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB, Pool::Large},
      {10 * kMiB - 511, 10 * kMiB, 10 * kMiB, Pool::Large},
      {10 * kMiB, 10 * kMiB, 10 * kMiB, Pool::Large},
      {10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB, Pool::Large},
  }));
  const AllocatorOptions options;
  const std::int64_t size = round_size(row.bytes, options);
  CHECK(size == row.block);
  CHECK(pool_of(size) == row.pool);
  CHECK(segment_size(size, options) == row.segment);
}
