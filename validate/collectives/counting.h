// Counts a rank's collectives where others can see it: among ranks that wait for each other, the
// one that called the fewest is the one that is waited for.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/communicator.h"

namespace zplan::trainer {

class Counting final : public Communicator {
 public:
  Counting(Communicator& inner, std::atomic<std::int64_t>& calls) : inner_(inner), calls_(calls) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string kind() const override { return inner_.kind(); }
  void all_reduce(at::Tensor t) override {
    ++calls_;
    inner_.all_reduce(std::move(t));
  }
  void all_gather(at::Tensor out, at::Tensor mine) override {
    ++calls_;
    inner_.all_gather(std::move(out), std::move(mine));
  }
  void reduce_scatter(at::Tensor out, at::Tensor all) override {
    ++calls_;
    inner_.reduce_scatter(std::move(out), std::move(all));
  }
  void broadcast(at::Tensor t, int root) override {
    ++calls_;
    inner_.broadcast(std::move(t), root);
  }
  void check() override { inner_.check(); }
  void barrier() override {
    ++calls_;
    inner_.barrier();
  }

 private:
  Communicator& inner_;
  std::atomic<std::int64_t>& calls_;
};

}  // namespace zplan::trainer
