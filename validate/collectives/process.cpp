#include "collectives/process.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>

namespace zplan::trainer {
namespace {

struct Gate {
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> arrived{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
constexpr std::size_t kGateBytes = 64;

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const timespec at_most{
      0, 100'000'000};  // woken or not, the caller looks at the clock ten times a second
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &at_most, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

class Processes final : public Communicator {
 public:
  Processes(const SharedArena& arena, int rank, double timeout_s)
      : arena_(arena), rank_(rank), timeout_s_(timeout_s) {}
  int rank() const override { return rank_; }
  int size() const override { return arena_.size(); }
  std::string kind() const override { return "process"; }

  void all_reduce(at::Tensor tensor) override {
    exchange("all_reduce", tensor.view(-1), [&](std::int64_t at, std::int64_t n) {
      tensor.view(-1).narrow(0, at, n).copy_(sum(n, tensor.scalar_type()));
    });
  }

  void all_gather(at::Tensor out, at::Tensor mine) override {
    exchange("all_gather", mine.view(-1), [&](std::int64_t at, std::int64_t n) {
      for (int r = 0; r < size(); ++r) {
        out.view(-1).narrow(0, r * mine.numel() + at, n).copy_(slot(r, n, mine.scalar_type()));
      }
    });
  }

  void reduce_scatter(at::Tensor out, at::Tensor all) override {
    const std::int64_t n = out.numel();
    at::Tensor result = at::empty_like(out.view(-1));
    for (int r = 0; r < size(); ++r) {
      exchange("reduce_scatter", all.view(-1).narrow(0, r * n, n),
               [&](std::int64_t at, std::int64_t count) {
                 if (r == rank_) result.narrow(0, at, count).copy_(sum(count, out.scalar_type()));
               });
    }
    out.view(-1).copy_(result);
  }

  void broadcast(at::Tensor tensor, int root) override {
    exchange("broadcast", tensor.view(-1), [&](std::int64_t at, std::int64_t n) {
      tensor.view(-1).narrow(0, at, n).copy_(slot(root, n, tensor.scalar_type()));
    });
  }

  void barrier() override { arena_.barrier("barrier", timeout_s_); }

 private:
  at::Tensor slot(int rank, std::int64_t n, at::ScalarType type) const {
    return at::from_blob(arena_.slot(rank), {n}, at::TensorOptions().dtype(type));
  }
  // In fp32 and in rank order, so that every rank computes the same bits.
  at::Tensor sum(std::int64_t n, at::ScalarType type) const {
    const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor total = slot(0, n, type).to(wide, /*non_blocking=*/false, /*copy=*/true);
    for (int r = 1; r < size(); ++r) total.add_(slot(r, n, type));
    return total;
  }
  // Piece by piece: every rank puts its piece into its slot, `read` takes what it needs from the
  // slots.
  template <class Read>
  void exchange(const char* what, const at::Tensor& mine, Read read) const {
    const std::int64_t piece = static_cast<std::int64_t>(arena_.slot_bytes()) / mine.element_size();
    for (std::int64_t at = 0; at < mine.numel(); at += piece) {
      const std::int64_t n = std::min(piece, mine.numel() - at);
      slot(rank_, n, mine.scalar_type()).copy_(mine.narrow(0, at, n));
      arena_.barrier(what, timeout_s_);
      read(at, n);
      arena_.barrier(what, timeout_s_);
    }
  }

  const SharedArena& arena_;
  int rank_;
  double timeout_s_;
};

}  // namespace

SharedArena::SharedArena(int size, std::size_t slot_bytes)
    : size_(size),
      slot_bytes_(slot_bytes),
      bytes_(kGateBytes + static_cast<std::size_t>(size) * slot_bytes) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw CollectiveError("no shared memory for the ranks: " + std::string(strerror(errno)));
  base_ = static_cast<char*>(memory);
  new (base_) Gate;
}

SharedArena::~SharedArena() { munmap(base_, bytes_); }

char* SharedArena::slot(int rank) const {
  return base_ + kGateBytes + static_cast<std::size_t>(rank) * slot_bytes_;
}

void SharedArena::barrier(const char* what, double seconds) const {
  auto& gate = *reinterpret_cast<Gate*>(base_);
  const std::uint32_t generation = gate.generation.load();
  if (gate.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    gate.arrived.store(0);
    gate.generation.fetch_add(1);
    futex_wake(gate.generation);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  while (gate.generation.load() == generation) {
    futex_wait(gate.generation, generation);
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) {
      throw CollectiveError(std::string(what) +
                            ": the other ranks did not come within the time allowed");
    }
  }
}

std::unique_ptr<Communicator> process_communicator(const SharedArena& arena, int rank,
                                                   double timeout_s) {
  return std::make_unique<Processes>(arena, rank, timeout_s);
}

}  // namespace zplan::trainer
