// A decoder-only language model as transformers runs it: embedding, layers of attention and SwiGLU
// between RMSNorms, final norm, head, cross-entropy.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

#include "model/module.h"
#include "spec/model.h"
#include "spec/workload.h"

namespace zplan::trainer {

struct DecoderOptions {
  at::ScalarType type = at::kBFloat16;
  at::Device device = at::kCPU;
  Recompute recompute;
  double norm_eps = 1e-6;
  double rope_theta = 1e6;
};

class Decoder {
 public:
  // Declares parameters and modules; no tensor is made yet. Throws InputError for what it cannot
  // build.
  Decoder(const Model& model, const DecoderOptions& options);

  // In the order of construction in transformers, which is DeepSpeed's order of everything.
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  const std::vector<std::unique_ptr<Module>>& modules() const { return modules_; }

  // Stage 3: hooks around every module and linears that find gathered weights in backward.
  void set_hooks(ModuleHooks* hooks) { hooks_ = hooks; }

  // The mean loss of `ids` [B, S] predicting itself shifted by one.
  at::Tensor loss(const at::Tensor& ids) const;

 private:
  struct Linear {
    const Module* module;
    Parameter *weight, *bias;
  };
  struct Norm {
    const Module* module;
    Parameter* weight;
  };
  struct Layer {
    const Module *module, *attention, *mlp, *activation;
    Norm input_norm, q_norm, k_norm, post_norm;
    Linear q, k, v, o, gate, up, down;
  };
  using Tables = std::pair<at::Tensor, at::Tensor>;

  Module* add_module(const std::string& name);
  Parameter* add_parameter(Module* module, const std::string& leaf,
                           std::vector<std::int64_t> shape);
  Linear add_linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias);
  Norm add_norm(const std::string& name, std::int64_t width);
  Layer add_layer(const std::string& name);

  at::Tensor run(const Linear& linear, const at::Tensor& x) const;
  at::Tensor run(const Norm& norm, const at::Tensor& x) const;
  at::Tensor attention(const Layer& layer, const at::Tensor& hidden, const Tables& rotary) const;
  at::Tensor mlp(const Layer& layer, const at::Tensor& hidden) const;
  at::Tensor layer(const Layer& layer, const at::Tensor& hidden, const Tables& rotary) const;
  at::Tensor backbone(const at::Tensor& ids) const;

  Model model_;
  DecoderOptions options_;
  ModuleHooks* hooks_ = nullptr;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<Module>> modules_;
  Module *root_, *inner_, *embedding_, *rotary_;
  Parameter* embedding_weight_;
  std::vector<Layer> layers_;
  Norm norm_;
  Linear head_;
};

}  // namespace zplan::trainer
