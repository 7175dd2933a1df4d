// What the ranks of a data-parallel group say to each other. Every call is collective, is queued on
// the current lane and returns at once on a GPU; tensors are contiguous.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace zplan::trainer {

// A collective that cannot complete: a peer is gone, the library reports an error, or nobody came
// in time.
struct CollectiveError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string kind() const = 0;  // as a measurement record names it: nccl, fake, process
  // Sum, in place.
  virtual void all_reduce(at::Tensor tensor) = 0;
  // `out` holds size() times `mine`, in the order of ranks; `mine` may be this rank's part of it.
  virtual void all_gather(at::Tensor out, at::Tensor mine) = 0;
  // The sum of this rank's part of `all`; `out` may be that part.
  virtual void reduce_scatter(at::Tensor out, at::Tensor all) = 0;
  virtual void broadcast(at::Tensor tensor, int root) = 0;
  // Throws CollectiveError if something has gone wrong behind an asynchronous call.
  virtual void check() {}
  // Every rank has come here. The host waits.
  virtual void barrier() = 0;
};

}  // namespace zplan::trainer
