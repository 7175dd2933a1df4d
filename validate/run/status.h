// Where every rank is, in memory that the supervisor and the ranks share: whoever survives can say
// what the others were doing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace zplan::trainer {

enum class Phase : std::int32_t { Start, Load, Init, Forward, Backward, Step, Save, Profile, Done };
std::string text(Phase phase);

struct RankStatus {
  std::atomic<std::int32_t> phase{0};
  std::atomic<std::int64_t> step{-1}, micro_step{-1};  // -1: before training
  std::atomic<std::int64_t> collectives{0};            // called so far
  std::atomic<std::int32_t> said{0};                   // 1: `message` holds why the rank ends
  char message[2048] = {};

  void enter(Phase p, std::int64_t s = -1, std::int64_t m = -1);
  void say(const std::string& why);
};

// "in backward of step 3", "while loading".
std::string where_is(const RankStatus& status);
// Does a come before b in a run? Within a phase the rank that has called fewer collectives does.
bool behind(const RankStatus& a, const RankStatus& b);

// RankStatus for `ranks` ranks and one small mailbox that rank 0 writes and the others read.
class StatusPage {
 public:
  explicit StatusPage(int ranks);
  ~StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;
  int ranks() const { return ranks_; }
  RankStatus& of(int rank) const;
  // Rank 0's bytes to every rank of this machine. Throws CollectiveError after `seconds`.
  void share_from_rank_0(int rank, void* data, std::size_t bytes, double seconds) const;

 private:
  int ranks_;
  std::size_t bytes_;
  char* base_;
};

}  // namespace zplan::trainer
