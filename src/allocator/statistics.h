// What torch.cuda.memory_stats reports, kept as PyTorch keeps it: every increase moves the peak at
// once. docs/allocator.md#statistics
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "allocator/rounding.h"

namespace zplan {

// current, peak, and the sums of increases and decreases since the last reset.
struct Stat {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  friend bool operator==(const Stat&, const Stat&) = default;
};

// One statistic for both pools and for each. Kept smaller than it is reported: the sums of
// increases follow from the rest, so that an increase, which moves peaks, has nothing else to add.
class Counter {
 public:
  void increase(Pool pool, std::int64_t n) {
    PerPool& p = pools_[static_cast<std::size_t>(pool)];
    p.current += n;
    p.peak = std::max(p.peak, p.current);
    current_ += n;
    peak_ = std::max(peak_, current_);
  }
  void decrease(Pool pool, std::int64_t n) {
    PerPool& p = pools_[static_cast<std::size_t>(pool)];
    p.current -= n;
    p.freed += n;
    current_ -= n;
  }
  void add(Pool pool, std::int64_t n) { n > 0 ? increase(pool, n) : decrease(pool, -n); }

  std::int64_t current() const { return current_; }
  std::int64_t peak() const { return peak_; }

  Stat all() const {
    const Stat small = of(Pool::Small), large = of(Pool::Large);
    return {current_, peak_, small.allocated + large.allocated, small.freed + large.freed};
  }
  Stat of(Pool pool) const {
    const PerPool& p = pools_[static_cast<std::size_t>(pool)];
    return {p.current, p.peak, p.freed + (p.current - p.at_reset), p.freed};
  }
  void reset_peak() {
    for (PerPool& p : pools_) p.peak = p.current;
    peak_ = current_;
  }
  void reset_accumulated() {
    for (PerPool& p : pools_) {
      p.freed = 0;
      p.at_reset = p.current;
    }
  }
  friend bool operator==(const Counter&, const Counter&) = default;

 private:
  // `current` and `freed` stand apart: side by side a compiler changes both as one vector, which
  // has to wait until an increase of `current` alone has reached the cache.
  struct PerPool {
    std::int64_t current = 0, peak = 0, freed = 0, at_reset = 0;
    friend bool operator==(const PerPool&, const PerPool&) = default;
  };
  std::array<PerPool, 2> pools_;
  std::int64_t current_ = 0, peak_ = 0;
};

// The names are torch's: allocation counts blocks, allocated_bytes their sizes, and so on.
struct Statistics {
  Counter allocation, allocated_bytes;  // handed out and not yet freed by the program
  Counter active, active_bytes;     // the same and blocks freed but still used by another stream
  Counter requested_bytes;          // what active blocks were asked for
  Counter segment, reserved_bytes;  // cudaMalloc segments; all bytes obtained from the device
  Counter inactive_split, inactive_split_bytes;  // free parts of segments that cannot be released
  Counter oversize_allocations, oversize_segments;  // of max_split_size and more
  std::int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0, num_device_free = 0, num_oom_rejections = 0;

  template <class Visit>
  void for_each_counter(Visit visit) {
    visit(allocation), visit(allocated_bytes), visit(active), visit(active_bytes);
    visit(requested_bytes), visit(segment), visit(reserved_bytes), visit(inactive_split);
    visit(inactive_split_bytes), visit(oversize_allocations), visit(oversize_segments);
  }
  void reset_peak() {
    for_each_counter([](Counter& c) { c.reset_peak(); });
  }
  void reset_accumulated() {
    for_each_counter([](Counter& c) { c.reset_accumulated(); });
    num_alloc_retries = num_ooms = num_sync_all_streams = 0;
    num_device_alloc = num_device_free = num_oom_rejections = 0;
  }
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

}  // namespace zplan
