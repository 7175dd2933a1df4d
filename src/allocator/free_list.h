// The free blocks of one pool and stream, ordered by size and then by the release's tie-break.
// A flat sorted array of one word a block: training keeps tens of free blocks, hundreds in deep
// models, where shifting some cache lines beats any tree, and nothing is allocated once the array
// has grown to its largest size. The tie-break looks blocks up, so it is asked only among equals.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace zplan {

// A block by its place in the allocator's table. The first place is no block's.
using BlockIndex = std::int32_t;
inline constexpr BlockIndex kNoBlock = 0;

// A free block's size and place in one word, size first. Bounds: 1 TiB, 16 million blocks.
class FreeEntry {
 public:
  FreeEntry() = default;
  constexpr FreeEntry(std::int64_t size, BlockIndex block)
      : word_(static_cast<std::uint64_t>(size) << kIndexBits | static_cast<std::uint32_t>(block)) {
    assert(size < kMaxSize && block >= 0 && block < (1 << kIndexBits));
  }
  // Behind all others.
  static constexpr FreeEntry last() { return {kMaxSize - 1, (1 << kIndexBits) - 1}; }

  constexpr std::int64_t size() const { return static_cast<std::int64_t>(word_ >> kIndexBits); }
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
  std::size_t size() const { return entries_.size() - kBefore - kAfter; }
  // From the smallest up.
  FreeEntry operator[](std::size_t i) const { return *(smallest() - i); }

  // The smallest entry of at least `bytes`; size() if there is none.
  std::size_t lower_bound(std::int64_t bytes) const {
    if (bytes >= FreeEntry::kMaxSize) return size();
    return count_below(FreeEntry(bytes, 0).word());
  }

  // `before(a, b)`: whether block a comes before block b of the same size.
  template <class Before>
  void insert(FreeEntry entry, Before before) {
    const std::size_t place = rank(entry, before);
    entries_.push_back(kNothing);
    FreeEntry* to = smallest() - place;
    move(to, to + 1, place);
    *to = entry;
  }

  void erase_at(std::size_t i) {
    FreeEntry* to = smallest() - i;
    move(to + 1, to, i);
    entries_.pop_back();
  }
  void erase(FreeEntry entry) { erase_at(find(entry)); }

  // Where the entry stands.
  std::size_t find(FreeEntry entry) const {
    std::size_t i = lower_bound(entry.size());
    while ((*this)[i] != entry) ++i;
    return i;
  }

  // Entry i becomes `entry`, a smaller one, at the place its new key asks for: most often its own.
  template <class Before>
  void shrink_at(std::size_t i, FreeEntry entry, Before before) {
    FreeEntry* to = smallest() - i;
    for (; i > 0 && precedes(entry, to[1], before); --i, ++to) to[0] = to[1];
    *to = entry;
  }
  // The same with a larger one.
  template <class Before>
  void grow_at(std::size_t i, FreeEntry entry, Before before) {
    FreeEntry* to = smallest() - i;
    for (; precedes(to[-1], entry, before); --to) to[0] = to[-1];
    *to = entry;
  }

  // Keeps the entries for which `keep` is true, in order, asked from the smallest up.
  template <class Keep>
  void keep_if(Keep keep) {
    const std::size_t n = size();
    FreeEntry* to = smallest();
    for (std::size_t i = 0; i < n; ++i) {
      const FreeEntry entry = (*this)[i];
      if (keep(entry)) *to-- = entry;
    }
    const auto first = entries_.begin() + kBefore;
    entries_.erase(first, first + (to + 1 - &*first));
  }

 private:
  // So much is read beyond the largest entry, and read and written beyond the smallest: a fixed
  // number of words takes no loop, whose last round is a branch to mispredict.
  static constexpr std::ptrdiff_t kBefore = 4, kAfter = 8;
  static constexpr FreeEntry kNothing = FreeEntry::last();

  const FreeEntry* smallest() const { return entries_.data() + entries_.size() - kAfter - 1; }
  FreeEntry* smallest() { return entries_.data() + entries_.size() - kAfter - 1; }

  // Moves n entries, the smallest ones, by one place.
  static void move(const FreeEntry* from, FreeEntry* to, std::size_t n) {
    if (n > kAfter) {
      std::memmove(to, from, n * sizeof(FreeEntry));
      return;
    }
    std::array<FreeEntry, kAfter> few;
    std::memcpy(few.data(), from, sizeof few);
    std::memcpy(to, few.data(), sizeof few);
  }

  template <class Before>
  static bool precedes(FreeEntry a, FreeEntry b, Before before) {
    return a.size() != b.size() ? a.word() < b.word() : before(a.block(), b.block());
  }

  // How many entries are below the key: halved down to four, which are counted. Arithmetic all of
  // it, for which side the key is on is a toss-up.
  std::size_t count_below(std::uint64_t key) const {
    const FreeEntry* base = smallest();
    for (std::size_t n = size(); n > kBefore;) {
      const std::size_t half = n / 2;
      base -= half & (std::size_t{0} - ((base - half + 1)->word() < key));
      n -= half;
    }
    auto count = static_cast<std::size_t>(smallest() - base);
    for (std::ptrdiff_t i = 0; i < kBefore; ++i) count += base[-i].word() < key;
    return count;
  }

  // How many entries come before `entry`.
  template <class Before>
  std::size_t rank(FreeEntry entry, Before before) const {
    std::size_t low = lower_bound(entry.size());
    if ((*this)[low].size() != entry.size()) return low;
    for (std::size_t high = lower_bound(entry.size() + 1); low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (before((*this)[middle].block(), entry.block())) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // The largest first: what is taken and comes back is mostly small, with few behind it to move.
  std::vector<FreeEntry> entries_ = std::vector<FreeEntry>(kBefore + kAfter, kNothing);
};

}  // namespace zplan
