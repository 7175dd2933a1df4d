// Replaying costs no heap allocation an event once the tables have grown.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "allocator/caching_allocator.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

std::atomic<std::size_t> allocations{0};  // NOLINT: counted by the operators below

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return counted(bytes, static_cast<std::size_t>(a));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // std::stable_sort's
  try {
    return counted(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  try {
    return counted(bytes, static_cast<std::size_t>(a));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

TEST_CASE("a step like the one before needs no memory of its own", "[allocator]") {
  AllocatorOptions options;
  options.expandable_segments = GENERATE(false, true);
  CachingAllocator a(options);
  std::vector<BlockIndex> live;
  live.reserve(64);
  const auto step = [&] {
    for (int layer = 0; layer < 24; ++layer)
      for (const std::int64_t bytes : {1000, 300'000, 5'000'000})
        if (live.size() < 64)
          live.push_back(a.allocate(bytes + 4096 * layer, static_cast<StreamId>(layer % 2)));
    for (std::size_t i = 0; i < live.size(); i += 3) a.free_requested(live[i]);
    for (std::size_t i = 0; i < live.size(); ++i)
      i % 3 ? a.free(live[i]) : a.free_completed(live[i]);
    live.clear();
  };
  step();
  step();
  const std::size_t before = allocations;
  step();
  CHECK(allocations == before);
}
