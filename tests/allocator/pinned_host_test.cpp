#include "allocator/pinned_host.h"

#include "tests/catch.h"

using namespace zplan;

namespace {

AllocatorOptions of_torch(int minor) {
  AllocatorOptions options;
  options.rules = allocator_rules({2, minor});
  return options;
}

}  // namespace

TEST_CASE("a pinned request takes the next power of two", "[allocator]") {
  const auto [request, size] = GENERATE(table<Bytes, Bytes>({
      {Bytes{1}, Bytes{1}},
      {Bytes{3}, Bytes{4}},
      {MiB(1), MiB(1)},
      {MiB(1) + Bytes{1}, MiB(2)},
      {GiB(5), GiB(8)},
  }));
  PinnedHostAllocator a;
  CHECK(a.block_size(a.allocate(request)) == size);
  CHECK(a.pinned() == size);
}

TEST_CASE("which pinned block is used again, by release", "[allocator]") {
  const auto [minor, request, pinned] = GENERATE(table<int, Bytes, Bytes>({
      {4, MiB(3), MiB(16)},   // any free block that is large enough
      {11, MiB(3), MiB(20)},  // only one of the same power of two
      {11, MiB(9), MiB(16)},
      {4, MiB(17), MiB(48)},
  }));
  INFO(minor);
  PinnedHostAllocator a(of_torch(minor));
  a.free(a.allocate(MiB(12)));
  a.allocate(request);
  CHECK(a.pinned() == pinned);
}

TEST_CASE("a pinned block with a copy under way is not used again", "[allocator]") {
  PinnedHostAllocator a;
  const auto first = a.allocate(MiB(4));
  a.free_requested(first);
  const auto second = a.allocate(MiB(4));
  CHECK(second != first);
  a.free_completed(first);
  CHECK(a.allocate(MiB(4)) == first);
  CHECK(a.pinned() == MiB(8));
  CHECK(a.active_peak() == MiB(8));
}

TEST_CASE("only free pinned blocks go back to the system", "[allocator]") {
  PinnedHostAllocator a;
  a.allocate(MiB(4));
  a.free(a.allocate(MiB(32)));
  CHECK(a.pinned() == MiB(36));
  a.empty_cache();
  CHECK(a.pinned() == MiB(4));
  CHECK(a.pinned_peak() == MiB(36));
}

TEST_CASE("2.13 keeps large pinned requests at their size and out of the cache", "[allocator]") {
  AllocatorOptions options = of_torch(13);
  options.pinned.max_round_threshold = options.pinned.max_cached_size = MiB(64);
  PinnedHostAllocator a(options);
  const auto exact = a.allocate(MiB(65));
  CHECK(a.pinned() == MiB(65));
  a.free(exact);
  CHECK(a.pinned() == Bytes{0});
  a.free(a.allocate(MiB(33)));
  CHECK(a.pinned() == MiB(64));
}
