#include "step/device_module.h"

#include <algorithm>
#include <utility>

#include "units/units.h"

namespace zplan {

DeviceModule::DeviceModule(const Run& run, const Script& script, Recorder& recorder)
    : run_(run), script_(script), recorder_(recorder), parameter_label_(recorder.label("parameter", Component::Parameters)),
      buffer_label_(recorder.label("rotary inv_freq", Component::Parameters)),
      quantized_label_(recorder.label("4-bit weight", Component::Parameters)),
      quantize_label_(recorder.label("weight being quantised", Component::StepTransients)), blocks_(script.parameters.size(), -1),
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

// Qwen3RotaryEmbedding keeps inv_freq and original_inv_freq, fp32; before 0.19.2 DeepSpeed cast them too.
void DeviceModule::rotary_buffers() {
  const auto width = run_.versions.switches.engine_casts_module ? this->width(0) : 4;
  for (int i = 0; i < 2; ++i) recorder_.allocate(width * run_.model.head_dim / 2, buffer_label_);
}

// compute_default_rope_parameters on the device: 1 / base ** (arange(0, D, 2) / D), and its copy; _init_weights
// computes it once more.
void DeviceModule::build_rotary_buffers() {
  const auto bytes = 2 * run_.model.head_dim;
  const auto make = [&](std::int64_t n) { return recorder_.allocate(n, buffer_label_); };
  const auto compute = [&] {
    const auto steps = make(bytes), divided = make(bytes);
    recorder_.free(steps);
    const auto powers = make(bytes), base = make(8);
    recorder_.free(base);
    recorder_.free(divided);
    const auto reciprocal = make(bytes), inv_freq = make(bytes);
    recorder_.free(reciprocal);
    recorder_.free(powers);
    return inv_freq;
  };
  rotary_ = {compute(), make(bytes)};
  recorder_.free(compute());
}

// module.half() or bfloat16() of buffers that are on the device.
void DeviceModule::cast_rotary_buffers() {
  for (const auto before : std::exchange(rotary_, {})) {
    recorder_.allocate(width(0) * run_.model.head_dim / 2, buffer_label_);
    recorder_.free(before);
  }
}

// Built on the host, as the HF Trainer does, the model does not touch the GPU before the engine moves it.
void DeviceModule::load() {
  if (run_.workload.finetune == Finetune::Qlora) {
    load_quantized();
    return;
  }
  if (run_.workload.load == Load::Gpu) {
    build_on_device();
    return;
  }
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) on_host_ += parameter(static_cast<std::int32_t>(i)).numel * width(static_cast<std::int32_t>(i));
  recorder_.host(on_host_);
  recorder_.empty_cache();
}

// bitsandbytes quantises each linear as it comes to the device; the rest follows, then PEFT's adapters, which are
// made in the weight's dtype and cast to fp32.
void DeviceModule::load_quantized() {
  // Made whole on the host, then moved; or loaded weight by weight to the device (device_map).
  std::int64_t on_host = 0;
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (script_.parameters[i].adapter()) continue;
    const auto bytes = parameter(p).numel * width(p);
    on_host = run_.workload.load == Load::Gpu ? std::max(on_host, bytes) : on_host + bytes;
  }
  recorder_.host(on_host);
  recorder_.empty_cache();
  bool first = true;
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    const auto& parameter = script_.parameters[i];
    if (parameter.quantized) quantize(p, std::exchange(first, false));
    else if (parameter.role == Role::Bias) allocate(p, width(p));
  }
  bool buffers = false;
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    const auto& parameter = script_.parameters[i];
    if (blocks_[i] >= 0 || parameter.adapter()) continue;
    if (parameter.owner == Owner::LmHead) { rotary_buffers(); buffers = true; }
    allocate(static_cast<std::int32_t>(i), width(static_cast<std::int32_t>(i)));
  }
  if (!buffers) rotary_buffers();
  recorder_.host(-on_host);
  recorder_.empty_cache();
  std::vector<std::int32_t> adapters;
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    if (script_.parameters[i].adapter()) adapters.push_back(static_cast<std::int32_t>(i));
  }
  for (const auto p : adapters) allocate(p, width(p));
  for (const auto p : adapters) cast(p, 4);
}

// bitsandbytes/functional.py quantize_4bit, nf4 in blocks of 64, statistics quantised in blocks of 256: the fp32
// absmax and the whole weight are there for a moment.
void DeviceModule::quantize(std::int32_t p, bool first) {
  const auto n = parameter(p).numel, blocks = ceil_div(n, 64);
  const auto make = [&](std::int64_t bytes) { return recorder_.allocate(bytes, quantized_label_, p); };
  const auto whole = recorder_.allocate(width(p) * n, quantize_label_, p), absmax = make(4 * blocks);
  size_[static_cast<std::size_t>(p)] = ceil_div(n, 2);
  blocks_[static_cast<std::size_t>(p)] = make(ceil_div(n, 2));
  bytes_ += ceil_div(n, 2);
  make(64);  // the 16 values of nf4
  const auto abs = make(64), max = make(4);
  recorder_.free(abs);
  recorder_.free(max);
  make(4);  // mean of the absmax
  const auto centred = recorder_.allocate(4 * blocks, quantize_label_, p);
  if (first) make(1024);  // code map of the process
  make(4 * ceil_div(blocks, 256));
  make(blocks);
  make(1024);
  for (const auto b : {centred, absmax, whole}) recorder_.free(b);
}

// Built under torch.device("cuda"): modules in the order of their construction, a tied head before its tie.
void DeviceModule::build_on_device() {
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (script_.parameters[i].adapter()) continue;  // PEFT adds them afterwards, in fp32
    if (script_.parameters[i].owner == Owner::LmHead) build_rotary_buffers();
    allocate(p, width(p));
  }
  if (run_.model.tied_embeddings) {
    build_rotary_buffers();
    recorder_.free(recorder_.allocate(run_.model.vocab * run_.model.hidden * width(0), parameter_label_));
  }
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    if (script_.parameters[i].adapter()) allocate(static_cast<std::int32_t>(i), 4);
  }
}

// nn.Module._apply: children first, each module's parameters, then its buffers; the head comes after the model.
void DeviceModule::move() {
  for (std::size_t i = 0; i < script_.parameters.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (blocks_[i] >= 0) {
      if (script_.parameters[i].adapter() && width(p) != 4) cast(p, width(p));
      continue;
    }
    if (script_.parameters[i].owner == Owner::LmHead) rotary_buffers();
    allocate(p, width(p));
  }
  if (run_.workload.load == Load::Gpu && run_.versions.switches.engine_casts_module) cast_rotary_buffers();
  const bool moved = run_.workload.load == Load::Cpu && run_.workload.finetune != Finetune::Qlora;
  if (moved && run_.model.tied_embeddings) rotary_buffers();
  recorder_.host(-std::exchange(on_host_, 0));
}

// ENG:_cast_module_mixed_precision, a parameter that is on the device.
void DeviceModule::cast(std::int32_t p, std::int64_t width) {
  const auto before = blocks_[static_cast<std::size_t>(p)];
  bytes_ -= size_[static_cast<std::size_t>(p)];
  allocate(p, width);
  recorder_.free(before);
}

}  // namespace zplan
