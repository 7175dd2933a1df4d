// What a training loop asks of DeepSpeed's engine, for one rank: adopt the weights, run backward
// with its reductions, step the optimizer. One implementation a ZeRO stage; docs/validation.md
// names what each mirrors.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "model/module.h"
#include "spec/ds_config.h"
#include "zero/adam.h"
#include "zero/loss_scaler.h"

namespace zplan::trainer {

struct EngineSetup {
  DsConfig ds;
  AdamSettings adam;
  at::Device device = at::kCPU;
  Communicator* communicator = nullptr;
};

using ParameterList = std::vector<Parameter*>;

class Engine {
 public:
  Engine(EngineSetup setup, ParameterList parameters);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine();

  // The loader's part: `full` is a parameter's whole value, in order of construction. Stage 3 keeps
  // its slice.
  virtual void adopt(Parameter& parameter, at::Tensor full);
  // deepspeed.initialize: flat buffers, master weights, buckets.
  virtual void initialize() = 0;
  virtual ModuleHooks* hooks() { return nullptr; }
  virtual void before_forward() {}
  // One micro-step's backward with what the stage reduces in it.
  void backward(const at::Tensor& loss);
  // At the end of an accumulation; false if the gradients overflowed and the step was skipped.
  virtual bool step() = 0;
  virtual std::string optimizer_classes() const = 0;  // as DeepSpeed names what this mirrors
  double last_gradient_norm() const { return gradient_norm_; }
  const LossScaler& loss_scaler() const { return scaler_; }

 protected:
  virtual void before_backward() {}
  virtual void after_backward() = 0;
  // Calls `ready` whenever the parameter's gradient of this micro-step is complete.
  void on_gradient(Parameter& parameter, std::function<void()> ready);

  // Of the backward that runs, and until the next one begins.
  bool boundary() const { return micro_step_ + 1 == setup_.ds.gradient_accumulation_steps; }
  bool first_micro_step() const { return micro_step_ == 0; }
  Communicator& comm() const { return *setup_.communicator; }
  at::ScalarType type() const;  // of the model's parameters
  // Sum over the ranks of a 0-dim double on the device.
  double global_sum(const at::Tensor& mine) const;
  // Is any rank's flag set? `worst` is the largest absolute value this rank saw, NaN and Inf
  // included.
  bool any_overflow(const at::Tensor& worst) const;
  // FP16/S12/S3:unscale_and_clip_grads: the factor gradients are multiplied with.
  double unscale_factor(double gradient_norm) const;

  EngineSetup setup_;
  ParameterList parameters_;
  LossScaler scaler_;
  double gradient_norm_ = 0;

 private:
  std::int64_t micro_step_ = -1;
};

at::ScalarType scalar_type(Precision precision);
// max(|amax|, |amin|) as RU:has_inf_or_nan computes it since 0.19.6: no tensor of size.
at::Tensor largest_magnitude(const at::Tensor& tensor);

// The engine of the ds_config's stage. Throws InputError for what is not mirrored here.
std::unique_ptr<Engine> make_engine(EngineSetup setup, ParameterList parameters);

}  // namespace zplan::trainer
