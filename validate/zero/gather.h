// The all-gather of a batch of partitioned parameters (PP:all_gather_coalesced and its handles).
//   one parameter    one buffer, the parameter is a view of it
//   several          one flat buffer; the first wait copies every parameter out of it, and the
//   buffer lives
//                    until the last parameter of the batch has been waited for
//   one rank         nothing is gathered: the parameter is its slice
// With stage3_allgather_sequential every parameter is gathered as if it were alone (PP:_all_gather_sequential):
// no flat buffer, no copy out of it.
#pragma once

#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "zero/partitioned.h"

namespace zplan::trainer {

class Gather {
 public:
  enum class Way { Together, EachAlone };
  // Queues the all-gather on the current lane. `parameters` in the order of their ids.
  Gather(std::vector<Partitioned*> parameters, Communicator& communicator, at::Device device, Way way);
  // The parameters of the batch are whole, in the order of the current lane, afterwards.
  void wait();

 private:
  void copy_out();
  std::vector<Partitioned*> parameters_;
  Communicator& communicator_;
  at::Tensor buffer_;
  bool complete_ = false;
};

// The persistent parameters after a step: each gathered into its own buffer
// (PP:_allgather_params_coalesced).
void gather_each(const std::vector<Partitioned*>& parameters, Communicator& communicator,
                 at::Device device);

}  // namespace zplan::trainer
