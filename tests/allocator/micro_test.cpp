// Short histories whose outcome follows from PyTorch's rules by hand:
// docs/allocator.md#worked-examples.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// "[12 A, 18 f] [30 A]": segments by address, in MiB where even, else bytes; f free, A live, P
// pending.
std::string layout(const CachingAllocator& a) {
  std::string out;
  for (const SegmentView& s : a.snapshot()) {
    out += out.empty() ? "[" : " [";
    for (std::size_t i = 0; i < s.blocks.size(); ++i) {
      const BlockView& b = s.blocks[i];
      out += i ? ", " : "";
      out += b.size % kMiB == 0 ? std::to_string(b.size / kMiB) : std::to_string(b.size) + "B";
      out += b.state == BlockState::Allocated ? " A" : b.state == BlockState::Pending ? " P" : " f";
    }
    out += "]";
  }
  return out;
}

std::int64_t reserved(const CachingAllocator& a) {
  return a.statistics().reserved_bytes.current() / kMiB;
}

AllocatorOptions expandable() {
  AllocatorOptions options;
  options.expandable_segments = true;
  return options;
}

}  // namespace

TEST_CASE("expandable segments map whole pages and reuse their tail", "[allocator]") {
  CachingAllocator a(expandable());
  std::vector<BlockIndex> blocks;
  std::vector<std::int64_t> after;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(a.allocate(16 * kMiB, 0));
    after.push_back(reserved(a));
  }
  CHECK(after == std::vector<std::int64_t>{20, 40, 60, 80, 80, 100, 120, 140});
  CHECK(layout(a) == "[16 A, 16 A, 16 A, 16 A, 16 A, 16 A, 16 A, 16 A, 12 f]");
  for (const BlockIndex b : blocks) a.free(b);
  CHECK(layout(a) == "[140 f]");
  for (int i = 0; i < 4; ++i) a.allocate(32 * kMiB, 0);
  CHECK(layout(a) == "[32 A, 32 A, 32 A, 32 A, 12 f]");
  CHECK(a.check() == "");
}

TEST_CASE("expandable segments fill the lowest run first", "[allocator]") {
  CachingAllocator a(expandable());
  std::vector<BlockIndex> b;
  for (int i = 0; i < 4; ++i) b.push_back(a.allocate(30 * kMiB, 0));
  CHECK(reserved(a) == 120);
  a.free(b[0]);
  a.free(b[2]);
  a.empty_cache();
  CHECK(reserved(a) == 80);
  CHECK(layout(a) == "[10 f, 30 A] [10 f, 30 A]");
  a.allocate(12 * kMiB, 0);
  CHECK(layout(a) == "[12 A, 18 f, 30 A] [10 f, 30 A]");
  a.allocate(45 * kMiB, 0);
  CHECK(reserved(a) == 160);
  CHECK(layout(a) == "[12 A, 18 f, 30 A] [10 f, 30 A, 45 A, 15 f]");
  CHECK(a.check() == "");
}

TEST_CASE("the small pool splits to 512 bytes, the large pool above 1 MiB", "[allocator]") {
  CachingAllocator a;
  SECTION("small") {
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{513}, kMiB}) a.allocate(n, 0);
    CHECK(layout(a) == "[512B A, 1024B A, 1 A, 1047040B f]");
    CHECK(a.statistics().inactive_split.current() == 1);
    a.allocate(kMiB - 1024, 0);
    CHECK(reserved(a) == 4);
    CHECK(a.statistics().inactive_split.current() == 2);
  }
  SECTION("borders of 1 and 10 MiB") {
    for (const std::int64_t n : {kMiB + 1, 10 * kMiB - 512, 10 * kMiB, 10 * kMiB + 1})
      a.allocate(n, 0);
    CHECK(layout(a) == "[10486272B A, 2096640B f] [1049088B A, 10485248B A, 9 f] [10 A]");
    CHECK(reserved(a) == 42);
    CHECK(a.statistics().inactive_split.current() == 2);
    const std::int64_t before = a.statistics().allocated_bytes.current();
    const BlockIndex whole = a.allocate(19 * kMiB, 0);  // 1 MiB left over is not split off
    CHECK(a.statistics().allocated_bytes.current() - before == 20 * kMiB);
    a.free(whole);
    CHECK(a.allocate(20 * kMiB - 512, 0) == whole);
    CHECK(a.block(whole).size == 20 * kMiB);
  }
  SECTION("a rest of 1 MiB + 512 is split off") {
    const BlockIndex first = a.allocate(22 * kMiB, 0);
    a.free(first);
    const BlockIndex whole = a.allocate(21 * kMiB, 0);
    CHECK(layout(a) == "[22 A]");
    a.free(whole);
    a.allocate(21 * kMiB - 512, 0);
    CHECK(layout(a) == "[22019584B A, 1049088B f]");
  }
  CHECK(a.check() == "");
}

TEST_CASE("a block another stream used comes back when its event is seen", "[allocator]") {
  CachingAllocator a;
  const BlockIndex first = a.allocate(12 * kMiB, 0);
  a.free_requested(first);
  CHECK(a.statistics().allocated_bytes.current() == 0);
  CHECK(a.statistics().active_bytes.current() == 12 * kMiB);
  a.allocate(12 * kMiB, 0);
  CHECK(layout(a) == "[12 P] [12 A]");
  a.free_completed(first);
  CHECK(a.allocate(12 * kMiB, 0) == first);
  CHECK(reserved(a) == 24);
}

TEST_CASE("a limit is met by releasing the cache once, then memory is out", "[allocator]") {
  AllocatorOptions options;
  options.capacity_limit = MiB(64);
  options.device_total = options.device_free = GiB(64);
  CachingAllocator a(options);
  const BlockIndex thirty = a.allocate(30 * kMiB, 0);
  a.allocate(20 * kMiB, 0);
  a.free(thirty);
  REQUIRE(a.allocate(40 * kMiB, 0) != kNoBlock);
  CHECK(a.statistics().num_alloc_retries == 1);
  CHECK(a.statistics().num_sync_all_streams == 1);
  CHECK(reserved(a) == 60);
  CHECK(a.allocate(6 * kMiB, 0) == kNoBlock);
  CHECK(a.statistics().num_alloc_retries == 2);
  CHECK(a.statistics().num_ooms == 1);
  CHECK(a.out_of_memory()->segment == MiB(20));
  CHECK(message(*a.out_of_memory(), options.rules) ==
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 64.00 GiB "
        "of which "
        "63.94 GiB is free. 64.00 MiB allowed; Of the allocated memory 60.00 MiB is allocated by "
        "PyTorch, "
        "and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
        "large "
        "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
        "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)");
  CHECK(a.check() == "");
}

TEST_CASE("max_split_size keeps large blocks whole", "[allocator]") {
  AllocatorOptions options;
  options.max_split_size = 20 * kMiB;
  SECTION("use of oversize blocks") {
    CachingAllocator a(options);
    a.free(a.allocate(60 * kMiB, 0));
    const BlockIndex fifteen = a.allocate(15 * kMiB, 0);  // 60 is not used for 15
    CHECK(reserved(a) == 76);
    a.free(fifteen);
    const BlockIndex whole = a.allocate(45 * kMiB, 0);  // 60 < 45 + 20: taken whole
    CHECK(a.block(whole).size == 60 * kMiB);
    a.free(whole);
    a.allocate(40 * kMiB, 0);  // 60 >= 40 + 20: a new segment
    CHECK(reserved(a) == 116);
  }
  SECTION("release of several oversize blocks before a retry") {
    options.device_free = options.device_total = MiB(100);
    CachingAllocator a(options);
    std::vector<BlockIndex> b;
    for (int i = 0; i < 3; ++i) b.push_back(a.allocate(30 * kMiB, 0));
    a.free(b[0]);
    a.free(b[1]);
    CHECK(a.allocate(52 * kMiB, 0) != kNoBlock);
    CHECK(a.statistics().num_alloc_retries == 0);
    CHECK(reserved(a) == 82);
  }
}

TEST_CASE("collection releases what was unused longest, down to the threshold", "[allocator]") {
  AllocatorOptions options;
  options.capacity_limit = MiB(1000);
  options.garbage_collection_threshold = 0.1;
  CachingAllocator a(options);
  const BlockIndex fifty = a.allocate(50 * kMiB, 0), thirty = a.allocate(30 * kMiB, 0);
  a.allocate(30 * kMiB, 0);
  a.free(fifty);
  a.free(thirty);
  a.free(a.allocate(25 * kMiB, 0));
  a.allocate(60 * kMiB, 0);
  CHECK(reserved(a) == 120);
  CHECK(layout(a).find("50") == std::string::npos);
}

TEST_CASE("equal free blocks: which is used first, by release", "[allocator]") {
  const auto [release, offset] = GENERATE(table<TorchRelease, std::int64_t>({
      {TorchRelease{2, 11}, 0},
      {TorchRelease{2, 12}, 4 * kMiB},
      {TorchRelease{2, 13}, 0},
  }));
  AllocatorOptions options;
  options.rules = allocator_rules(release);
  CachingAllocator t(options);
  std::vector<BlockIndex> b;
  for (int i = 0; i < 4; ++i) b.push_back(t.allocate(2 * kMiB, 0));
  const std::int64_t base = t.block(b[0]).address;
  t.free(b[0]);
  t.free(b[1]);
  const BlockIndex e = t.allocate(2 * kMiB, 0);
  t.allocate(2 * kMiB, 0);
  t.free(e);
  t.free(b[2]);
  CHECK(t.block(t.allocate(2 * kMiB, 0)).address - base == offset);
}

TEST_CASE("roundup_power2_divisions of 4", "[allocator]") {
  AllocatorOptions options;
  options.roundup_power2_divisions.fill(4);
  const auto [bytes, size] = GENERATE(table<std::int64_t, std::int64_t>({
      {513, 1024},
      {1200, 1536},
      {2049, 2560},
      {3000, 3072},
      {5000, 5120},
      {kMiB + 1, 1'310'720},
      {3 * kMiB + 1, 3'670'016},
      {17 * kMiB, 20'971'520},
      {100 * kMiB + 1, 117'440'512},
  }));
  INFO(bytes);
  CHECK(round_size(bytes, options) == size);
}
