// A parameter of stage 3: every rank holds a slice, the whole exists only around its use (PP:Init).
#pragma once

#include <set>

#include "device.h"
#include "model/module.h"
#include "units/units.h"

namespace zplan::trainer {

struct Partitioned {
  enum class Status { Away, InFlight, Here };

  Parameter* parameter = nullptr;
  std::int64_t slice_numel = 0;  // ceil(numel / ranks); the last rank's tail is padding
  at::Tensor slice;         // this rank's, on the device or, with offload_param, in host memory
  bool persistent = false;  // stays whole from the end of one step to the beginning of the next
  Status status = Status::Away;
  std::set<std::int64_t> active_modules;  // fetched for and not yet released by

  // PP:free_param: the block goes back only after what uses it on the current lane.
  void free() {
    Lane::current(parameter->value.device()).keep(parameter->value);
    parameter->value.set_data(at::empty({0}, parameter->value.options().requires_grad(false)));
    status = Status::Away;
  }
};

}  // namespace zplan::trainer
