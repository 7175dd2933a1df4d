// The free blocks of one pool and stream, ordered by size and then by the release's tie-break.
// A flat sorted array: training keeps tens of free blocks, where a shift of a few cache lines beats
// any tree, and nothing is allocated once the array has grown to its largest size.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zplan {

// A block by its place in the allocator's table.
using BlockIndex = std::int32_t;
inline constexpr BlockIndex kNoBlock = -1;

struct FreeEntry {
  std::int64_t size = 0;
  std::uint64_t tie = 0;
  BlockIndex block = kNoBlock;

  friend bool operator<(const FreeEntry& a, const FreeEntry& b) {
    return a.size != b.size ? a.size < b.size : a.tie < b.tie;
  }
};

class FreeList {
 public:
  std::size_t size() const { return entries_.size(); }
  const FreeEntry& operator[](std::size_t i) const { return entries_[i]; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  // The smallest entry of at least `size`; size() if there is none.
  std::size_t lower_bound(std::int64_t size) const {
    const FreeEntry* base = entries_.data();
    std::size_t n = entries_.size();
    if (n == 0) return 0;
    while (n >
           1) {  // the comparison selects an address, so it compiles without a branch to mispredict
      const std::size_t half = n / 2;
      base = base[half - 1].size < size ? base + half : base;
      n -= half;
    }
    return static_cast<std::size_t>(base - entries_.data()) + (base->size < size);
  }

  void insert(const FreeEntry& entry) {
    const std::size_t at = position(entry);
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(at), entry);
  }

  void erase_at(std::size_t at) {
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void erase(const FreeEntry& entry) { erase_at(find(entry)); }

  // Entry `at` becomes `entry`, at the place its new key asks for.
  void replace_at(std::size_t at, const FreeEntry& entry) {
    FreeEntry* e = entries_.data();
    const std::size_t last = entries_.size() - 1;
    while (at > 0 && entry < e[at - 1]) {
      e[at] = e[at - 1];
      --at;
    }
    while (at < last && e[at + 1] < entry) {
      e[at] = e[at + 1];
      ++at;
    }
    e[at] = entry;
  }

  void replace(const FreeEntry& old, const FreeEntry& entry) { replace_at(find(old), entry); }

  // Keeps the entries for which `keep` is true, in order.
  template <class Keep>
  void keep_if(Keep keep) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const FreeEntry entry = entries_[i];
      if (keep(entry)) entries_[kept++] = entry;
    }
    entries_.resize(kept);
  }

 private:
  // Where an entry with this key stands or would stand.
  std::size_t position(const FreeEntry& key) const {
    const std::size_t at = lower_bound(key.size);
    if (at == entries_.size() || !(entries_[at] < key)) return at;
    return static_cast<std::size_t>(
        std::lower_bound(entries_.begin() + static_cast<std::ptrdiff_t>(at), entries_.end(), key) -
        entries_.begin());
  }
  std::size_t find(const FreeEntry& key) const {
    const std::size_t at = position(key);
    assert(at < entries_.size() && entries_[at].block == key.block);
    return at;
  }

  std::vector<FreeEntry> entries_;
};

}  // namespace zplan
