// Ranks as processes of one machine that share a page of memory: the collectives of the CPU path.
#pragma once

#include <cstddef>

#include "collectives/communicator.h"

namespace zplan::trainer {

// Memory that the ranks inherit through fork(): a barrier and one slot a rank.
class SharedArena {
 public:
  explicit SharedArena(int size, std::size_t slot_bytes = std::size_t{1} << 20);
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;
  int size() const { return size_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  char* slot(int rank) const;
  // Throws CollectiveError if the others do not come within `seconds`.
  void barrier(const char* what, double seconds) const;

 private:
  int size_;
  std::size_t slot_bytes_, bytes_;
  char* base_;
};

// `timeout_s`: how long a rank waits for the others in one collective.
std::unique_ptr<Communicator> process_communicator(const SharedArena& arena, int rank,
                                                   double timeout_s);

}  // namespace zplan::trainer
