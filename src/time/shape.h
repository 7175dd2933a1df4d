// The counts of a model that decide time: elements, tensors and modules of a layer and of what surrounds the layers.
// Closed forms of inventory/parameters.h, so that the search's inner loop allocates nothing; a test holds them equal.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "spec/model.h"
#include "spec/workload.h"

namespace zplan {

struct Linear {
  std::int64_t in = 0, out = 0;
};

// The linears of one layer: q, k, v, o and, unless the layer has experts, gate, up, down.
struct LayerLinears {
  std::array<Linear, 7> all;
  int count = 0;
};
LayerLinears layer_linears(const Model& model);

struct ModelShape {
  std::int64_t layers = 0, trained_layers = 0;     // trained: their weights take gradients
  // Backward passes through them: the trained ones; with checkpointing all, since the embedding's output is then made to
  // require a gradient (transformers, enable_input_require_grads).
  std::int64_t backward_layers = 0;
  std::int64_t layer_elements = 0;                 // with adapters
  std::int64_t elements = 0, trainable = 0;        // whole model; quantised weights count as elements
  std::int64_t tensors = 0, trainable_tensors = 0;
  std::int64_t head_elements = 0, embedding_elements = 0;
  std::int64_t quantized = 0;                      // elements held in 4 bits (QLoRA)
  std::int64_t modules_per_layer = 0;              // nn.Modules called in one forward of a layer
  std::int64_t norms_per_layer = 0;
};
ModelShape model_shape(const Model& model, const Workload& workload);

// Tensors of at most `limit` elements, and the sum over the others of min(1, elements / batch): how many
// batches of `batch` elements they travel in when each batch holds at least one tensor. Per whole model.
struct TensorBatches {
  double large_tensors = 0;
  double large_elements = 0;
  double batches = 0;
};
TensorBatches tensor_batches(const Model& model, const Workload& workload, bool trainable_only, std::int64_t limit,
                             std::int64_t batch);

// One layer's modules that own tensors, as forward calls them: the elements of each, a linear's bias beside its weight.
struct ModuleTensors {
  std::vector<std::int64_t> elements;
  bool adapter = false;
};
std::vector<ModuleTensors> layer_modules(const Model& model, const Workload& workload);

}  // namespace zplan
