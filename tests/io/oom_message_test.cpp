#include "io/oom_message.h"

#include "allocator/options.h"
#include "allocator/out_of_memory.h"
#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;

namespace {

Bytes gib(double n) { return Bytes{static_cast<std::int64_t>(n * 1024 * 1024 * 1024 + 0.5)}; }
Bytes mib(double n) { return Bytes{static_cast<std::int64_t>(n * 1024 * 1024 + 0.5)}; }

}  // namespace

TEST_CASE("PyTorch's message is read in the form of every release", "[io]") {
  struct Row {
    const char* name;
    const char* text;
    Bytes tried, allocated, unallocated;
    std::optional<Bytes> total, free, process, allowed;
    Bytes others;
    std::optional<std::int64_t> gpu, rank;
  };
  const auto row = GENERATE(values<Row>({
      {"1.13 (pytorch/pytorch #16417)",
       "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 5.61 GiB "
       "already "
       "allocated; 12.44 MiB free; 5.68 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory "
       "try "
       "setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and "
       "PYTORCH_CUDA_ALLOC_CONF",
       mib(20),
       gib(5.61),
       gib(5.68) - gib(5.61),
       gib(7.79),
       mib(12.44),
       std::nullopt,
       std::nullopt,
       {},
       0,
       std::nullopt},
      {"2.1, with its misspelling, in a container",
       "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 172.00 MiB. GPU 2 has a total capacty of "
       "79.15 "
       "GiB of which 81.38 MiB is free. Process 11233 has 79.06 GiB memory in use. Of the allocated memory 75.43 GiB "
       "is "
       "allocated by PyTorch, and 2.41 GiB is reserved by PyTorch but unallocated. If reserved but unallocated "
       "memory is "
       "large try setting max_split_size_mb to avoid fragmentation.",
       mib(172), gib(75.43), gib(2.41), gib(79.15), mib(81.38), gib(79.06), std::nullopt, {}, 2,
       std::nullopt},
      {"2.5, in the log of torchrun, broken by the terminal",
       "[rank3]:   File \"train.py\", line 12\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to "
       "allocate 2.32\n"
       "GiB. GPU 3 has a total capacity of 39.39 GiB of which 1.05 GiB is free. Including non-PyTorch memory, this "
       "process "
       "has 38.33 GiB memory in use. Of the allocated memory 35.80 GiB is allocated by PyTorch, and 1.10 GiB is "
       "reserved "
       "by PyTorch but unallocated. If reserved but unallocated memory is large try setting",
       gib(2.32),
       gib(35.80),
       gib(1.10),
       gib(39.39),
       gib(1.05),
       gib(38.33),
       std::nullopt,
       {},
       3,
       3},
      {"2.11, with a limit and another process",
       "CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 139.80 GiB of which 97.68 GiB "
       "is "
       "free. Including non-PyTorch memory, this process has 37.55 GiB memory in use. Process 1958 has 4.55 GiB "
       "memory in "
       "use. 37.50 GiB allowed; Of the allocated memory 36.50 GiB is allocated by PyTorch, and 252.10 MiB is "
       "reserved by "
       "PyTorch but unallocated.",
       gib(2.32), gib(36.50), mib(252.10), gib(139.80), gib(97.68), gib(37.55), gib(37.50), gib(4.55), 0,
       std::nullopt},
      {"with CUDA graphs' private pools",
       "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 512 bytes "
       "is free. "
       "Of the allocated memory 20.00 GiB is allocated by PyTorch, with 30.00 MiB allocated in private pools (e.g., "
       "CUDA "
       "Graphs), and 1.00 KiB is reserved by PyTorch but unallocated.",
       mib(2),
       gib(20),
       Bytes{1024},
       gib(23.65),
       Bytes{512},
       std::nullopt,
       std::nullopt,
       {},
       0,
       std::nullopt},
      {"ROCm",
       "HIP out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total capacity of 63.98 GiB of which 0 bytes is "
       "free. Of "
       "the allocated memory 60.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
       gib(1),
       gib(60),
       {},
       gib(63.98),
       Bytes{},
       std::nullopt,
       std::nullopt,
       {},
       1,
       std::nullopt},
  }));
  INFO(row.name);
  const OomMessage m = read_oom_message(row.text, "message");
  CHECK(m.tried.value == row.tried);
  CHECK(m.allocated.value == row.allocated);
  CHECK(m.unallocated == row.unallocated);
  CHECK(m.total == row.total);
  CHECK(m.free == row.free);
  CHECK(m.process == row.process);
  CHECK(m.allowed == row.allowed);
  CHECK(m.others == row.others);
  CHECK(m.gpu == row.gpu);
  CHECK(m.rank == row.rank);
  CHECK(m.messages == 1);
}

TEST_CASE("what the simulated allocator writes for each release is read back", "[io]") {
  const int minor = GENERATE(1, 2, 5, 8, 9, 10, 11, 12, 13);
  OutOfMemory oom;
  oom.segment = MiB(594);
  oom.device_total = GiB(80);
  oom.device_free = MiB(400);
  oom.allowed = GiB(40);
  oom.allocated = GiB(33);
  oom.reserved = GiB(35);
  const OomMessage m = read_oom_message(message(oom, allocator_rules({2, minor}), 5), "message");
  CHECK(m.tried.value == MiB(594));
  CHECK(m.total == GiB(80));
  CHECK(m.free == MiB(400));
  CHECK(m.allowed == (minor >= 9 ? std::optional<Bytes>(GiB(40)) : std::nullopt));
  CHECK(m.allocated.value == GiB(33));
  CHECK(m.unallocated == GiB(2));
  CHECK(m.gpu == 5);
}

TEST_CASE("a printed size stands for all that are printed alike, and no other", "[io]") {
  const OomMessage m = read_oom_message(
      "out of memory. Tried to allocate 3.86 GiB. Of the allocated memory 1.00 GiB is allocated by PyTorch, "
      "and 0 bytes is reserved by PyTorch but unallocated.",
      "message");
  CHECK(m.tried.may_be(gib(3.8551)));
  CHECK(m.tried.may_be(gib(3.8649)));
  CHECK(!m.tried.may_be(gib(3.8549)));
  CHECK(!m.tried.may_be(gib(3.8651)));
}

TEST_CASE("the first of several messages counts", "[io]") {
  const std::string one =
      "CUDA out of memory. Tried to allocate 1.00 GiB. Of the allocated memory 2.00 GiB is allocated by PyTorch, and "
      "3.00 GiB is "
      "reserved by PyTorch but unallocated.\n";
  const OomMessage m = read_oom_message("[rank1]: " + one + "[rank0]: " + one, "message");
  CHECK(m.messages == 2);
  CHECK(m.rank == 1);
}

TEST_CASE("the most that could be reserved: what is free beside it, or what is allowed", "[io]") {
  OomMessage m;
  m.allocated.value = GiB(30);
  m.unallocated = GiB(5);
  m.free = GiB(2);
  CHECK(m.limit() == GiB(37));
  m.allowed = GiB(36);
  CHECK(m.limit() == GiB(36));
  m.allowed = GiB(60);
  CHECK(m.limit() == GiB(37));
  m.free.reset();
  CHECK(m.limit() == GiB(60));
}

TEST_CASE("what is no complete message is an input error", "[io]") {
  CHECK(error_text([] { read_oom_message("Killed", "oom.txt"); }) ==
        "oom.txt: there is no out-of-memory message of PyTorch in it\n  fix: paste the line that says \"CUDA out of "
        "memory. "
        "Tried to allocate ...\"");
  const auto text = GENERATE(
      "CUDA out of memory. Tried to allocate ", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a",
      "CUDA out of memory. Tried to allocate x GiB. Of the allocated memory 1.00 GiB is allocated by PyTorch, and "
      "1.00 GiB is reserved by PyTorch but unallocated.",
      "CUDA out of memory. Tried to allocate more than 1EB memory.");
  INFO(text);
  CHECK(error_text([&] {
          read_oom_message(text, "oom.txt");
        }).rfind("oom.txt: the out-of-memory message is not complete", 0) == 0);
}
