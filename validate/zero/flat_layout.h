// Where each parameter lies in the flat buffer of stages 1 and 2, and which ranks own which of it
// (S12:__init__).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/module.h"
#include "units/units.h"

namespace zplan::trainer {

struct Slice {
  std::int64_t begin = 0, numel = 0;
};

class FlatLayout {
 public:
  FlatLayout(const std::vector<Parameter*>& parameters, int ranks) {
    for (const Parameter* p : parameters) {
      begins_.push_back(total_);
      total_ += p->numel;
    }
    begins_.push_back(total_);
    padded_ =
        round_up(total_, 2 * static_cast<std::int64_t>(ranks));  // nccl_start_alignment_factor 2
    part_ = padded_ / ranks;
  }

  std::int64_t total() const { return total_; }
  std::int64_t padded() const { return padded_; }
  std::int64_t part() const { return part_; }
  std::int64_t begin(std::size_t parameter) const { return begins_[parameter]; }
  // What of the parameter the rank owns, counted from the parameter's first element; numel 0:
  // nothing.
  Slice owned(std::size_t parameter, int rank) const {
    const std::int64_t first = begins_[parameter], last = begins_[parameter + 1];
    const std::int64_t from = std::max(first, rank * part_),
                       to = std::min(last, (rank + 1) * part_);
    return {from - first, std::max<std::int64_t>(to - from, 0)};
  }
  int owner_of(std::int64_t element) const { return static_cast<int>(element / part_); }

 private:
  std::vector<std::int64_t> begins_;
  std::int64_t total_ = 0, padded_ = 0, part_ = 0;
};

}  // namespace zplan::trainer
