// The model's tensors on the GPU in stages 0-2, from loading to the flat buffers: DeepSpeed moves the whole module
// (ENG:_configure_distributed_model), then an optimizer's flat buffer takes the place of the trainable ones.
// Derived in docs/stages-0-2.md#load.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/run.h"
#include "step/recorder.h"
#include "step/script.h"

namespace zplan {

class DeviceModule {
 public:
  DeviceModule(const Run& run, const Script& script, Recorder& recorder);

  void load();
  // ENG:_configure_distributed_model: casts to the training dtype and moves to the GPU.
  void move();
  // `param.data = ` a view of a flat buffer: the parameter's own storage goes.
  void drop(std::int32_t parameter);
  std::int64_t width(std::int32_t parameter) const;  // bytes an element of a trainable parameter in training
  std::int64_t bytes() const { return bytes_; }

 private:
  void allocate(std::int32_t parameter, std::int64_t width);
  void build_on_device();
  void load_quantized();
  void quantize(std::int32_t parameter, bool first);
  void cast(std::int32_t parameter, std::int64_t width);
  void rotary_buffers();
  void build_rotary_buffers();
  void cast_rotary_buffers();
  const Parameter& parameter(std::int32_t p) const { return script_.parameters[static_cast<std::size_t>(p)]; }

  const Run& run_;
  const Script& script_;
  Recorder& recorder_;
  std::uint16_t parameter_label_, buffer_label_, quantized_label_, quantize_label_;
  std::vector<BlockId> blocks_;  // by parameter; -1: on the host or in a flat buffer
  std::vector<std::int64_t> size_;
  std::vector<BlockId> rotary_;  // inv_freq and its copy where the model is built on the device
  std::int64_t bytes_ = 0, on_host_ = 0;
};

}  // namespace zplan
