#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>

#include "data/corpus.h"
#include "data/weights.h"
#include "model/checkpoint.h"
#include "model/decoder.h"
#include "model/operators.h"
#include "runs.h"
#include "spec/error.h"
#include "tests/catch.h"

namespace zplan::trainer {
namespace {

// y = tanh(tanh(x) w), counting how often it runs.
struct Counted {
  at::Tensor w = at::randn({8, 8}, at::kFloat).requires_grad_(true);
  int runs = 0;
  Region region() {
    return [this](const at::Tensor& x) {
      ++runs;
      return at::tanh(at::tanh(x).matmul(w));
    };
  }
};

struct Gradients { at::Tensor x, w; };

template <class Forward>
Gradients gradients(Counted& counted, Forward forward) {
  at::Tensor x = at::arange(32, at::kFloat).view({4, 8}).div(32).requires_grad_(true);
  counted.w.mutable_grad().reset();
  torch::autograd::backward({forward(x).sum()}, {});
  return {x.grad(), counted.w.grad()};
}

}  // namespace

TEST_CASE("both kinds of checkpointing give the gradients of the plain region and run it twice", "[validate][model]") {
  at::manual_seed(3);
  Counted counted;
  const Gradients plain = gradients(counted, counted.region());
  CHECK(counted.runs == 1);
  struct Row { const char* name; at::Tensor (*checkpoint)(const Region&, const at::Tensor&); };
  for (const Row& row : {Row{"non-reentrant", checkpoint_non_reentrant}, Row{"reentrant", checkpoint_reentrant}}) {
    INFO(row.name);
    counted.runs = 0;
    const Gradients got = gradients(counted, [&](const at::Tensor& x) { return row.checkpoint(counted.region(), x); });
    CHECK(counted.runs == 2);
    CHECK(at::equal(got.x, plain.x));
    CHECK(at::equal(got.w, plain.w));
  }
}

TEST_CASE("a non-reentrant region keeps its input and nothing else until backward", "[validate][model]") {
  Counted counted;
  at::Tensor inner;
  const Region region = [&](const at::Tensor& x) {
    const at::Tensor t = at::tanh(x);
    inner = t;
    return t.matmul(counted.w);
  };
  at::Tensor x = at::ones({4, 8}).requires_grad_(true);
  const at::Tensor plain = region(x);
  CHECK(inner.use_count() > 1);  // saved by the graph
  const at::Tensor kept = checkpoint_non_reentrant(region, x);
  CHECK(inner.use_count() == 1);  // only `inner` here holds it
}

TEST_CASE("recomputation stops at the last tensor that backward needs", "[validate][model]") {
  Counted counted;
  int ends = 0;
  const Region region = [&](const at::Tensor& x) {
    const at::Tensor y = at::tanh(x);  // saves its result: the last that backward needs
    ++ends;
    return y + 1;
  };
  at::Tensor x = at::ones({4, 8}).requires_grad_(true);
  torch::autograd::backward({checkpoint_non_reentrant(region, x).sum()}, {});
  CHECK(ends == 1);
  CHECK(at::allclose(x.grad(), 1 - at::tanh(at::ones({4, 8})).square()));
}

TEST_CASE("nested regions: the inner one is recomputed inside the recomputation of the outer", "[validate][model]") {
  Counted inner;
  const Gradients plain = gradients(inner, [&](const at::Tensor& x) { return inner.region()(inner.region()(x)); });
  inner.runs = 0;
  const Region both = [&](const at::Tensor& x) { return inner.region()(inner.region()(x)); };
  const Gradients got = gradients(inner, [&](const at::Tensor& x) { return checkpoint_non_reentrant(both, x); });
  CHECK(inner.runs == 4);
  CHECK(at::allclose(got.x, plain.x));
}

TEST_CASE("the linear of stage 3 has the gradients of the plain one", "[validate][model]") {
  for (const bool biased : {false, true}) {
    const at::Tensor x0 = at::randn({2, 3, 4}), w0 = at::randn({5, 4}), b0 = at::randn({5});
    std::vector<at::Tensor> grads[2];
    for (int which = 0; which < 2; ++which) {
      at::Tensor x = x0.clone().requires_grad_(true), w = w0.clone().requires_grad_(true);
      at::Tensor b = biased ? b0.clone().requires_grad_(true) : at::Tensor();
      const at::Tensor y = which == 0 ? plain_linear(x, w, b) : gathered_linear(x, w, b);
      torch::autograd::backward({y.square().sum()}, {});
      grads[which] = {x.grad(), w.grad()};
      if (biased) grads[which].push_back(b.grad());
    }
    for (std::size_t i = 0; i < grads[0].size(); ++i) CHECK(at::allclose(grads[0][i], grads[1][i], 1e-4, 1e-5));
  }
}

TEST_CASE("parameters by name and order are those of transformers", "[validate][model]") {
  Plan plan = tiny_plan();
  const Decoder decoder(plan.run.model, {});
  const auto& p = decoder.parameters();
  REQUIRE(p.size() == 1 + 3 * 11 + 1 + 1);
  CHECK(p[0]->name == "model.embed_tokens.weight");
  CHECK(p[1]->name == "model.layers.0.self_attn.q_proj.weight");
  CHECK(p[5]->name == "model.layers.0.self_attn.q_norm.weight");
  CHECK(p[7]->name == "model.layers.0.mlp.gate_proj.weight");
  CHECK(p[10]->name == "model.layers.0.input_layernorm.weight");
  CHECK(p[34]->name == "model.norm.weight");
  CHECK(p[35]->name == "lm_head.weight");
  CHECK(p[35]->shape == std::vector<std::int64_t>{96, 32});
}

TEST_CASE("a decoder that cannot be built says so", "[validate][model]") {
  Model m = tiny_plan().run.model;
  m.experts = Experts{4, 2, 16};
  CHECK_THROWS_AS(Decoder(m, {}), InputError);
}

TEST_CASE("sequences do not depend on how they are asked for, and have structure", "[validate][data]") {
  const auto corpus = synthetic_corpus(96, 1);
  const at::Tensor together = corpus->sequences(5, 3, 64), alone = corpus->sequences(6, 1, 64);
  CHECK(at::equal(together[1], alone[0]));
  CHECK_FALSE(at::equal(together[0], together[1]));
  // Every token has at most four successors.
  const at::Tensor many = corpus->sequences(0, 200, 64);
  const auto ids = many.accessor<std::int64_t, 2>();
  std::vector<std::set<std::int64_t>> successors(96);
  for (std::int64_t s = 0; s < 200; ++s) {
    for (std::int64_t t = 0; t + 1 < 64; ++t) successors[static_cast<std::size_t>(ids[s][t])].insert(ids[s][t + 1]);
  }
  for (const auto& set : successors) CHECK(set.size() <= 4);
}

TEST_CASE("a token file is read by its width, and its faults are named", "[validate][data]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("tokens.bin");
  const std::uint16_t tokens[] = {1, 2, 3, 4, 5, 60000, 7};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(tokens), sizeof tokens);
  const auto corpus = token_file(path, 60001);
  CHECK(at::equal(corpus->sequences(1, 1, 3), at::tensor({4, 5, 60000}, at::kLong).view({1, 3})));
  CHECK(at::equal(corpus->sequences(2, 1, 3), at::tensor({1, 2, 3}, at::kLong).view({1, 3})));  // begins again
  CHECK_THROWS_WITH(token_file(path, 100)->sequences(1, 1, 3),
                    path + ": token 5 is 60000, beyond a vocabulary of 100\n  fix: tokenize with the model's own tokenizer");
  CHECK_THROWS_AS(token_file(path, 60001)->sequences(0, 1, 8), InputError);
  CHECK_THROWS_AS(token_file(path, 100000), InputError);  // 14 bytes are no whole number of 4-byte ids
  CHECK_THROWS_AS(token_file(folder.path("none"), 10), InputError);
}

TEST_CASE("weights come from safetensors by name, cast to the model's dtype", "[validate][data]") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& header, std::size_t floats) {
    std::ofstream out(folder.path("model.safetensors"), std::ios::binary);
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header;
    for (std::size_t i = 0; i < floats; ++i) {
      const float f = static_cast<float>(i) / 2;
      out.write(reinterpret_cast<const char*>(&f), 4);
    }
  };
  Parameter p;
  p.name = "a.weight";
  p.shape = {2, 3};
  write(R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 6);
  const at::Tensor got = safetensors_weights(folder.path(""))->value(p, at::kBFloat16, at::kCPU);
  CHECK(at::equal(got, at::arange(6, at::kFloat).div(2).view({2, 3}).to(at::kBFloat16)));
  p.shape = {3, 2};
  CHECK_THROWS_AS(safetensors_weights(folder.path(""))->value(p, at::kFloat, at::kCPU), InputError);
  p.name = "b.weight";
  CHECK_THROWS_AS(safetensors_weights(folder.path(""))->value(p, at::kFloat, at::kCPU), InputError);
  write(R"({"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 5);  // cut off
  CHECK_THROWS_AS(safetensors_weights(folder.path("")), InputError);
  write(R"({"a.weight":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[0,6]}})", 6);
  CHECK_THROWS_AS(safetensors_weights(folder.path("")), InputError);
  CHECK_THROWS_AS(safetensors_weights(folder.path("nothing")), InputError);
}

TEST_CASE("a parameter's random value depends on its name and the seed alone", "[validate][data]") {
  Parameter a, b, norm;
  a.name = "a.weight"; b.name = "b.weight"; norm.name = "model.norm.weight";
  a.shape = b.shape = {50, 40};
  norm.shape = {8};
  const auto source = random_weights(1);
  const at::Tensor value = source->value(a, at::kFloat, at::kCPU);
  CHECK(at::equal(value, random_weights(1)->value(a, at::kFloat, at::kCPU)));
  CHECK_FALSE(at::equal(value, source->value(b, at::kFloat, at::kCPU)));
  CHECK_FALSE(at::equal(value, random_weights(2)->value(a, at::kFloat, at::kCPU)));
  CHECK(value.std().item<double>() == Approx(0.02).epsilon(0.1));
  CHECK(at::equal(source->value(norm, at::kFloat, at::kCPU), at::ones({8})));
}

}  // namespace zplan::trainer
