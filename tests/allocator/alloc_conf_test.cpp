#include "allocator/alloc_conf.h"

#include "tests/catch.h"

using namespace zplan;

namespace {

std::string refusal(const std::string& conf, int minor) {
  try {
    parse_alloc_conf(conf, allocator_rules({2, minor}));
    return "";
  } catch (const AllocConfError& e) {
    CHECK_FALSE(e.fix().empty());
    return e.what();
  }
}

}  // namespace

TEST_CASE("a configuration string sets what it names", "[allocator]") {
  const AllocatorOptions o = parse_alloc_conf(
      "expandable_segments:True, max_split_size_mb:128,garbage_collection_threshold:0.8,"
      "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
  CHECK(o.expandable_segments);
  CHECK(o.max_split_size == MiB(128).count);
  CHECK(o.garbage_collection_threshold == 0.8);
  CHECK(o.roundup_power2_divisions ==
        std::array<std::int64_t, 16>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8});
}

TEST_CASE("where > begins, and what a new string resets, by release", "[allocator]") {
  CHECK(parse_alloc_conf("roundup_power2_divisions:[1024:4,>:8]", allocator_rules({2, 8}))
            .roundup_power2_divisions[10] == 8);
  CHECK(parse_alloc_conf("roundup_power2_divisions:[1024:4,>:8]", allocator_rules({2, 9}))
            .roundup_power2_divisions[10] == 4);
  const AllocatorOptions before =
      parse_alloc_conf("expandable_segments:True,max_split_size_mb:64,large_segment_size_mb:40");
  const AllocatorOptions after = parse_alloc_conf("garbage_collection_threshold:0.5", {}, before);
  CHECK(after.expandable_segments);
  CHECK(after.large_segment_size == MiB(40).count);
  CHECK(after.max_non_split_rounding == MiB(40).count);  // follows the segment since 2.11
  CHECK(after.max_split_size == AllocatorOptions{}.max_split_size);
}

TEST_CASE("bad configuration strings are refused in PyTorch's words", "[allocator]") {
  const auto [conf, since_2_9, before] = GENERATE(table<std::string, std::string, std::string>({
      {"max_split_size_mb:19", "CachingAllocator option max_split_size_mb too small, must be >= 20",
       "CachingAllocator option max_split_size_mb too small, must be > 20"},
      {"max_split_size_mb:20", "",
       "CachingAllocator option max_split_size_mb too small, must be > 20"},
      {"max_split_size_mb", "Index out of bounds in ConfigTokenizer",
       "Error parsing CachingAllocator settings, expected :"},
      {"max_split_size_mb:", "Index out of bounds in ConfigTokenizer",
       "Error, expecting max_split_size_mb value"},
      {"max_split:1", "Unrecognized key 'max_split' in Accelerator allocator config.",
       "Unrecognized CachingAllocator option: max_split"},
      {"expandable_segments=True",
       "Unrecognized key 'expandable_segments=True' in Accelerator allocator config.",
       "Unrecognized CachingAllocator option: expandable_segments=True"},
      {"expandable_segments:true",
       "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'",
       "Expected a single True/False argument for expandable_segments"},
      {"garbage_collection_threshold:1.5",
       "garbage_collect_threshold is invalid, set it in (0.0, 1.0)",
       "garbage_collect_threshold too big, set it 0.0~1.0"},
      {"roundup_power2_divisions:3", "For roundups, the divisions has to be power of 2 ",
       "For roundups, the divisions has to be power of 2 "},
      {"roundup_power2_divisions:[200:4]", "For roundups, the intervals have to be power of 2 ",
       "For roundups, the intervals have to be power of 2 "},
      {"roundup_power2_divisions:[",
       "Expected closing bracket ']' in ConfigTokenizer but reached end of config",
       "Error parsing CachingAllocator settings, expected ,"},
      {"backend:jemalloc", "Unknown allocator backend, options are native and cudaMallocAsync",
       "Unknown allocator backend, options are native and cudaMallocAsync"},
      {"pinned_num_register_threads:3", "Number of register threads has to be power of 2, got 3",
       "Number of register threads has to be power of 2 "},
  }));
  INFO(conf);
  CHECK(refusal(conf, 11) == since_2_9);
  CHECK(refusal(conf, 6) == before);
}

TEST_CASE("a negative segment size wraps to the largest size_t", "[allocator]") {
  CHECK(refusal("max_split_size_mb:64,large_segment_size_mb:-1", 11) ==
        "CachingAllocator option max_split_size_mb too small, must be >= 17592186044415");
  CHECK(refusal("large_segment_size_mb:-1", 11).empty());
  CHECK(parse_alloc_conf("max_split_size_mb:-1", allocator_rules({2, 6})).max_split_size ==
        AllocatorOptions{}.max_split_size);
}

TEST_CASE("a refused key comes with the way to mend it", "[allocator]") {
  const auto [conf, fix] = GENERATE(table<std::string, std::string>({
      {"expandable_segment:True", "did you mean expandable_segments?"},
      {"expandable_segments=True", "write key:value, not key=value"},
      {"max_split_size_mb:128 expandable_segments:True",
       "separate key:value pairs with commas, not spaces"},
      {"max_split_size_mb:5", "use max_split_size_mb:20 or more"},
  }));
  try {
    parse_alloc_conf(conf);
    FAIL("accepted: " << conf);
  } catch (const AllocConfError& e) {
    CHECK(e.fix() == fix);
  }
}
