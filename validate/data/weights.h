// Where a parameter's first value comes from: a Hugging Face checkpoint, or random numbers that
// depend on its name alone, so that every rank and every stage starts from the same model.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "model/module.h"

namespace zplan::trainer {

class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;
  virtual ~WeightSource() = default;
  virtual at::Tensor value(const Parameter& parameter, at::ScalarType type,
                           at::Device device) const = 0;
};

// Normal with deviation 0.02, norms 1, biases 0, as transformers initialises.
std::unique_ptr<WeightSource> random_weights(std::uint64_t seed);

// The *.safetensors files of a folder, mapped. Throws InputError for a missing tensor or another
// shape.
std::unique_ptr<WeightSource> safetensors_weights(const std::string& folder);

}  // namespace zplan::trainer
