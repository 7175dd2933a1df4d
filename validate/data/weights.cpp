#include "data/weights.h"

#include <ATen/CPUGeneratorImpl.h>

#include <functional>

namespace zplan::trainer {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// FNV-1a: the same on every machine, unlike std::hash.
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 1469598103934665603ULL;
  for (const unsigned char c : text) h = (h ^ c) * 1099511628211ULL;
  return h;
}

class Random final : public WeightSource {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  at::Tensor value(const Parameter& p, at::ScalarType type, at::Device device) const override {
    const auto options = at::TensorOptions().dtype(type).device(device);
    if (ends_with(p.name, "norm.weight")) return at::ones(p.shape, options);
    if (ends_with(p.name, ".bias")) return at::zeros(p.shape, options);
    const std::uint64_t seed = seed_ ^ hash(p.name);
    // Large tensors are drawn where they stay, in the model's dtype: no fp32 copy of an embedding.
    // Small ones on the CPU, so that a small model is the same on every device.
    constexpr std::int64_t kLarge = std::int64_t{1} << 22;
    if (device.is_cuda() && p.numel > kLarge) {
      at::Generator generator = at::globalContext().defaultGenerator(device).clone();
      generator.set_current_seed(seed);
      return at::empty(p.shape, options).normal_(0, 0.02, generator);
    }
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return at::empty(p.shape, at::kFloat).normal_(0, 0.02, generator).to(type).to(device);
  }

 private:
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(std::uint64_t seed) {
  return std::make_unique<Random>(seed);
}

}  // namespace zplan::trainer
