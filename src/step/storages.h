// Blocks that several Python objects refer to: a bucket and the gradients that are views of it, a parameter's
// gradient and the lists that hold it. The block goes with its last reference.
#pragma once

#include <cstdint>
#include <vector>

#include "step/recorder.h"

namespace zplan {

class Storages {
 public:
  using Ref = std::int32_t;
  static constexpr Ref kNone = -1;

  explicit Storages(Recorder& recorder) : recorder_(recorder) {}
  // A new storage with one reference.
  Ref own(BlockId block) {
    if (block < 0) return kNone;
    if (!unused_.empty()) {
      const auto ref = unused_.back();
      unused_.pop_back();
      all_[static_cast<std::size_t>(ref)] = {block, 1};
      return ref;
    }
    all_.push_back({block, 1});
    return static_cast<Ref>(all_.size() - 1);
  }
  Ref share(Ref ref) {
    if (ref != kNone) ++all_[static_cast<std::size_t>(ref)].references;
    return ref;
  }
  // Drops one reference and forgets it.
  void release(Ref& ref) {
    if (ref == kNone) return;
    auto& storage = all_[static_cast<std::size_t>(ref)];
    if (--storage.references == 0) {
      recorder_.free(storage.block);
      unused_.push_back(ref);
    }
    ref = kNone;
  }
  // A list is dropped: Python takes its items from the end.
  void release_list(std::vector<Ref>& refs) {
    for (auto it = refs.rbegin(); it != refs.rend(); ++it) release(*it);
    refs.clear();
  }
  BlockId block(Ref ref) const { return all_[static_cast<std::size_t>(ref)].block; }

 private:
  struct Storage {
    BlockId block = -1;
    std::int32_t references = 0;
  };
  Recorder& recorder_;
  std::vector<Storage> all_;
  std::vector<Ref> unused_;
};

}  // namespace zplan
