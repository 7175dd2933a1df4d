// The free blocks of one pool and stream, ordered by size and then by the release's tie-break.
// A flat sorted array of one word a block: training keeps tens of free blocks, hundreds in deep
// models, where shifting some cache lines beats any tree, and nothing is allocated once the array
// has grown to its largest size. The tie-break looks blocks up, so it is asked as seldom as a
// binary search allows.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zplan {

// A block by its place in the allocator's table. The first place is no block's.
using BlockIndex = std::int32_t;
inline constexpr BlockIndex kNoBlock = 0;

// A free block's size and place in one word, size first. Bounds: 1 TiB, 16 million blocks.
class FreeEntry {
 public:
  FreeEntry(std::int64_t size, BlockIndex block)
      : word_(static_cast<std::uint64_t>(size) << kIndexBits | static_cast<std::uint32_t>(block)) {
    assert(size < kMaxSize && block >= 0 && block < (1 << kIndexBits));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(word_ >> kIndexBits); }
  BlockIndex block() const { return static_cast<BlockIndex>(word_ & ((1u << kIndexBits) - 1)); }
  std::uint64_t word() const { return word_; }
  friend bool operator==(FreeEntry, FreeEntry) = default;

  static constexpr int kIndexBits = 24;
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << (64 - kIndexBits);

 private:
  std::uint64_t word_;
};

class FreeList {
 public:
  std::size_t size() const { return entries_.size(); }
  FreeEntry operator[](std::size_t i) const { return entries_[i]; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  // The smallest entry of at least `size`; size() if there is none.
  std::size_t lower_bound(std::int64_t size) const {
    if (size >= FreeEntry::kMaxSize) return entries_.size();
    const std::uint64_t key = FreeEntry(size, 0).word();
    const FreeEntry* base = entries_.data();
    std::size_t n = entries_.size();
    if (n == 0) return 0;
    while (n > 1) {  // the comparison selects an address: no branch to mispredict
      const std::size_t half = n / 2;
      base = base[half - 1].word() < key ? base + half : base;
      n -= half;
    }
    return static_cast<std::size_t>(base - entries_.data()) + (base->word() < key);
  }

  // `before(a, b)`: whether block a comes before block b of the same size.
  template <class Before>
  void insert(FreeEntry entry, Before before) {
    entries_.push_back(entry);
    replace_at(entries_.size() - 1, entry, before);
  }

  void erase_at(std::size_t at) {
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void erase(FreeEntry entry) { erase_at(find(entry)); }

  // Where the entry stands.
  std::size_t find(FreeEntry entry) const {
    std::size_t at = lower_bound(entry.size());
    while (entries_[at] != entry) ++at;
    return at;
  }

  // Entry `at` becomes `entry`, at the place its new key asks for.
  template <class Before>
  void replace_at(std::size_t at, FreeEntry entry, Before before) {
    const auto precedes = [&](FreeEntry a, FreeEntry b) {
      return a.size() != b.size() ? a.word() < b.word() : before(a.block(), b.block());
    };
    FreeEntry *first = entries_.data(), *place = first + at, *end = first + entries_.size();
    if (place > first && precedes(entry, place[-1])) {
      FreeEntry* to = std::upper_bound(first, place - 1, entry, precedes);
      std::move_backward(to, place, place + 1);
      place = to;
    } else if (place + 1 < end && precedes(place[1], entry)) {
      FreeEntry* behind = std::lower_bound(place + 2, end, entry, precedes);
      std::move(place + 1, behind, place);
      place = behind - 1;
    }
    *place = entry;
  }

  // Keeps the entries for which `keep` is true, in order.
  template <class Keep>
  void keep_if(Keep keep) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const FreeEntry entry = entries_[i];
      if (keep(entry)) entries_[kept++] = entry;
    }
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(kept), entries_.end());
  }

 private:
  std::vector<FreeEntry> entries_;
};

}  // namespace zplan
