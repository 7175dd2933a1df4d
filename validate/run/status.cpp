#include "run/status.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <tuple>

#include "collectives/communicator.h"

namespace zplan::trainer {
namespace {

struct alignas(64) Mailbox {
  std::atomic<std::int32_t> full{0};
  char data[512];
};

}  // namespace

std::string text(Phase phase) {
  switch (phase) {
    case Phase::Start:
      return "start";
    case Phase::Load:
      return "load";
    case Phase::Init:
      return "init";
    case Phase::Forward:
      return "forward";
    case Phase::Backward:
      return "backward";
    case Phase::Step:
      return "step";
    case Phase::Save:
      return "save";
    case Phase::Profile:
      return "profile";
    case Phase::Done:
      return "done";
  }
  return "";
}

void RankStatus::enter(Phase p, std::int64_t s, std::int64_t m) {
  step.store(s);
  micro_step.store(m);
  phase.store(static_cast<std::int32_t>(p));
}

void RankStatus::say(const std::string& why) {
  const std::size_t n = std::min(why.size(), sizeof message - 1);
  std::memcpy(message, why.data(), n);
  message[n] = '\0';
  said.store(1);
}

std::string where_is(const RankStatus& status) {
  const auto phase = static_cast<Phase>(status.phase.load());
  if (status.step < 0) return "in " + text(phase);
  return "in " + text(phase) + " of step " + std::to_string(status.step) + ", micro-step " +
         std::to_string(status.micro_step);
}

bool behind(const RankStatus& a, const RankStatus& b) {
  const auto at = [](const RankStatus& s) {
    return std::tuple(s.step.load(), s.micro_step.load(), s.phase.load(), s.collectives.load());
  };
  return at(a) < at(b);
}

StatusPage::StatusPage(int ranks)
    : ranks_(ranks),
      bytes_(sizeof(Mailbox) + static_cast<std::size_t>(ranks) * sizeof(RankStatus)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw CollectiveError("no shared memory for the ranks: " + std::string(strerror(errno)));
  base_ = static_cast<char*>(memory);
  new (base_) Mailbox;
  for (int r = 0; r < ranks; ++r) new (&of(r)) RankStatus;
}

StatusPage::~StatusPage() { munmap(base_, bytes_); }

RankStatus& StatusPage::of(int rank) const {
  return reinterpret_cast<RankStatus*>(base_ + sizeof(Mailbox))[rank];
}

void StatusPage::share_from_rank_0(int rank, void* data, std::size_t bytes, double seconds) const {
  auto& box = *reinterpret_cast<Mailbox*>(base_);
  if (bytes > sizeof box.data) throw CollectiveError("the mailbox of the ranks is too small");
  if (rank == 0) {
    std::memcpy(box.data, data, bytes);
    box.full.store(1);
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (box.full.load() == 0) {
    if (std::chrono::steady_clock::now() > until)
      throw CollectiveError("rank 0 did not start in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::memcpy(data, box.data, bytes);
}

}  // namespace zplan::trainer
