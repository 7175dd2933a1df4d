#include "step/device_module.h"

namespace zplan {

DeviceModule::DeviceModule(const Run& run, const Script& script, Recorder& recorder)
    : run_(run), script_(script), recorder_(recorder), parameter_label_(recorder.label("parameter", Component::Parameters)),
      buffer_label_(recorder.label("rotary inv_freq", Component::Parameters)), blocks_(script.parameters.size(), -1),
      size_(script.parameters.size(), 0) {}

std::int64_t DeviceModule::width(std::int32_t) const {
  return run_.ds.torch_autocast ? 4 : zplan::width(run_.ds.precision).count;
}

void DeviceModule::allocate(std::int32_t p, std::int64_t width) {
  const auto i = static_cast<std::size_t>(p);
  size_[i] = parameter(p).numel * width;
  blocks_[i] = recorder_.allocate(size_[i], parameter_label_, p);
  bytes_ += size_[i];
}

void DeviceModule::drop(std::int32_t p) {
  const auto i = static_cast<std::size_t>(p);
  if (blocks_[i] < 0) return;
  recorder_.free(blocks_[i]);
  blocks_[i] = -1;
  bytes_ -= size_[i];
}

// Qwen3RotaryEmbedding keeps inv_freq and original_inv_freq, fp32.
void DeviceModule::rotary_buffers() {
  for (int i = 0; i < 2; ++i) recorder_.allocate(2 * run_.model.head_dim, buffer_label_);
}

// Built on the host, as the HF Trainer does, the model does not touch the GPU before the engine moves it.
void DeviceModule::load() {
  if (run_.workload.load == Load::Cpu) recorder_.empty_cache();
}

// nn.Module._apply: children first, each module's parameters, then its buffers; the head comes after the model.
void DeviceModule::move() {
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (script_.parameters[i].owner == Owner::LmHead) rotary_buffers();
    if (blocks_[i] < 0) allocate(p, width(p));
  }
  if (run_.model.tied_embeddings) rotary_buffers();
}

}  // namespace zplan
