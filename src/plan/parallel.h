// Independent pieces of work side by side.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace zplan {

// Calls work(0) ... work(count - 1), each once, on up to `threads` threads. `work` must not throw.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto worker = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads && static_cast<std::size_t>(t) < count; ++t) pool.emplace_back(worker);
  worker();
  for (auto& t : pool) t.join();
}

}  // namespace zplan
