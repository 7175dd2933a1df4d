#include "time/shape.h"

#include <algorithm>

namespace zplan {
namespace {

// Calls add(elements, tensors alike, trainable) for every kind of tensor of one layer.
template <typename Add>
void for_layer_tensors(const Model& m, const Workload& w, bool trained, Add add) {
  const bool base = trained && !w.adapted();
  const auto linears = layer_linears(m);
  for (int i = 0; i < linears.count; ++i) {
    const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
    add(in * out, 1, base);
    const bool biased = i < 3 ? m.qkv_bias : (i == 3 ? m.o_bias : m.mlp_bias);
    if (biased) add(out, 1, base);
    if (w.adapted()) {
      add(w.lora_rank * in, 1, true);
      add(w.lora_rank * out, 1, true);
    }
  }
  if (m.experts) {
    const auto e = *m.experts;
    add(e.count * 2 * e.intermediate * m.hidden, 1, base);
    add(e.count * e.intermediate * m.hidden, 1, base);
    add(e.count * m.hidden, 1, base);
  }
  if (m.qk_norm) add(m.head_dim, 2, base);
  add(m.hidden, 2, base);
}

// The same for the tensors outside the layers.
template <typename Add>
void for_outer_tensors(const Model& m, const Workload& w, Add add) {
  add(m.vocab * m.hidden, 1, w.finetune == Finetune::Full);
  add(m.hidden, 1, !w.adapted());
  if (!m.tied_embeddings) add(m.vocab * m.hidden, 1, !w.adapted());
}

std::int64_t frozen_layers(const Model& m, const Workload& w) {
  return w.finetune == Finetune::Freeze ? std::min(w.freeze_layers, m.layers) : 0;
}

}  // namespace

LayerLinears layer_linears(const Model& m) {
  const auto h = m.hidden, a = m.attention_width(), k = m.kv_width(), f = m.intermediate;
  LayerLinears l{{{{h, a}, {h, k}, {h, k}, {a, h}, {h, f}, {h, f}, {f, h}}}, 7};
  if (m.experts) l.count = 4;
  return l;
}

ModelShape model_shape(const Model& m, const Workload& w) {
  ModelShape s;
  s.layers = m.layers;
  s.trained_layers = m.layers - frozen_layers(m, w);
  s.backward_layers = w.recompute.any() ? m.layers : s.trained_layers;
  s.head_elements = s.embedding_elements = m.vocab * m.hidden;
  // decoder layer, attention, MLP, activation, two norms; then the linears, the q and k norms and adapters
  // (PEFT wraps a linear in lora.Linear: base, dropout, A and B are called besides it).
  const auto linears = layer_linears(m);
  s.norms_per_layer = m.qk_norm ? 4 : 2;
  s.modules_per_layer = 4 + s.norms_per_layer + linears.count * (w.adapted() ? 5 : 1) + (m.experts ? 2 : 0);
  const auto count = [&](std::int64_t layers) {
    return [&s, layers](std::int64_t elements, std::int64_t alike, bool trainable) {
      s.elements += layers * alike * elements;
      s.tensors += layers * alike;
      s.trainable += trainable ? layers * alike * elements : 0;
      s.trainable_tensors += trainable ? layers * alike : 0;
    };
  };
  for_layer_tensors(m, w, true, count(s.trained_layers));
  for_layer_tensors(m, w, false, count(m.layers - s.trained_layers));
  s.layer_elements = s.elements / m.layers;
  for_outer_tensors(m, w, count(1));
  if (w.finetune == Finetune::Qlora) {
    for (int i = 0; i < linears.count; ++i) {
      const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
      s.quantized += m.layers * in * out;
    }
  }
  return s;
}

std::vector<ModuleTensors> layer_modules(const Model& m, const Workload& w) {
  std::vector<ModuleTensors> modules = {{{m.hidden}}};  // input norm
  const auto linears = layer_linears(m);
  for (int i = 0; i < linears.count; ++i) {
    const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
    if (i == 4) modules.push_back({{m.hidden}});  // norm before the MLP
    const bool biased = i < 3 ? m.qkv_bias : (i == 3 ? m.o_bias : m.mlp_bias);
    modules.push_back({biased ? std::vector{in * out, out} : std::vector{in * out}});
    if (w.adapted()) {
      modules.push_back({{w.lora_rank * in}, true});
      modules.push_back({{w.lora_rank * out}, true});
    }
    if (m.qk_norm && i < 2) modules.push_back({{m.head_dim}});
  }
  if (m.experts) {
    const auto e = *m.experts;
    modules.push_back({{m.hidden}});
    modules.push_back({{e.count * m.hidden}});  // router
    modules.push_back({{e.count * 2 * e.intermediate * m.hidden, e.count * e.intermediate * m.hidden}});
  }
  return modules;
}

TensorBatches tensor_batches(const Model& m, const Workload& w, bool trainable_only, std::int64_t limit,
                             std::int64_t batch) {
  TensorBatches t;
  const double size = static_cast<double>(std::max<std::int64_t>(batch, 1));
  const auto count = [&](std::int64_t layers) {
    return [&, layers](std::int64_t elements, std::int64_t alike, bool trainable) {
      if (elements <= limit || (trainable_only && !trainable)) return;
      const double n = static_cast<double>(layers * alike);
      t.large_tensors += n;
      t.large_elements += n * static_cast<double>(elements);
      t.batches += n * std::min(1.0, static_cast<double>(elements) / size);
    };
  };
  const auto frozen = frozen_layers(m, w);
  for_layer_tensors(m, w, true, count(m.layers - frozen));
  for_layer_tensors(m, w, false, count(frozen));
  for_outer_tensors(m, w, count(1));
  t.batches = std::max(t.batches, t.large_tensors > 0 ? 1.0 : 0.0);
  return t;
}

}  // namespace zplan
