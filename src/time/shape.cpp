#include "time/shape.h"

#include <algorithm>

namespace zplan {
namespace {

// Calls visit(elements, opens, adapter) for every tensor of one layer, as forward meets them; opens: it is the first of the
// module that owns it.
template <typename Visit>
void visit_layer(const Model& m, const Workload& w, Visit visit) {
  const auto norm = [&](std::int64_t width) { visit(width, true, false); };
  norm(m.hidden);
  const auto linears = layer_linears(m);
  for (int i = 0; i < linears.count; ++i) {
    const auto [in, out] = linears.all[static_cast<std::size_t>(i)];
    if (i == 4) norm(m.hidden);  // before the MLP
    visit(in * out, true, false);
    const bool biased = i < 3 ? m.qkv_bias : (i == 3 ? m.o_bias : m.mlp_bias);
    if (biased) visit(out, false, false);
    if (w.adapted()) {
      visit(w.lora_rank * in, true, true);
      visit(w.lora_rank * out, true, true);
    }
    if (m.qk_norm && i < 2) norm(m.head_dim);
  }
  if (m.experts) {
    const auto e = *m.experts;
    norm(m.hidden);
    visit(e.count * m.hidden, true, false);  // router
    visit(e.count * 2 * e.intermediate * m.hidden, true, false);
    visit(e.count * e.intermediate * m.hidden, false, false);
  }
}

// Calls add(elements, trainable) for every tensor of one layer.
template <typename Add>
void for_layer_tensors(const Model& m, const Workload& w, bool trained, Add add) {
  visit_layer(m, w, [&](std::int64_t elements, bool, bool adapter) { add(elements, adapter || (trained && !w.adapted())); });
}

// The same for the tensors outside the layers.
template <typename Add>
void for_outer_tensors(const Model& m, const Workload& w, Add add) {
  add(m.vocab * m.hidden, w.finetune == Finetune::Full);
  add(m.hidden, !w.adapted());
  if (!m.tied_embeddings) add(m.vocab * m.hidden, !w.adapted());
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
    return [&s, layers](std::int64_t elements, bool trainable) {
      s.elements += layers * elements;
      s.tensors += layers;
      s.trainable += trainable ? layers * elements : 0;
      s.trainable_tensors += trainable ? layers : 0;
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
  std::vector<ModuleTensors> modules;
  visit_layer(m, w, [&modules](std::int64_t elements, bool opens, bool adapter) {
    if (opens) modules.push_back({{}, adapter});
    modules.back().elements.push_back(elements);
  });
  return modules;
}

TensorBatches tensor_batches(const Model& m, const Workload& w, bool trainable_only, std::int64_t limit,
                             std::int64_t batch) {
  TensorBatches t;
  const double size = static_cast<double>(std::max<std::int64_t>(batch, 1));
  const auto count = [&](std::int64_t layers) {
    return [&, layers](std::int64_t elements, bool trainable) {
      if (elements <= limit || (trainable_only && !trainable)) return;
      const double n = static_cast<double>(layers);
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
