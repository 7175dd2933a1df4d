#include "step/engine.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "units/units.h"

namespace zplan {

EngineKind engine_of(const Run& run) {
  const bool bf16 = run.ds.precision == Precision::Bf16 && !run.ds.torch_autocast;
  switch (run.ds.zero.stage) {
    case 0: return bf16 && !run.versions.switches.bf16_stage0_fp16_wrapper ? EngineKind::Bf16Optimizer : EngineKind::Zero0;
    case 1: {
      const bool fp32_accumulation = run.ds.accumulation_dtype() == Precision::Fp32;
      const bool offloaded = run.ds.zero.offload_optimizer.device != OffloadDevice::None;
      return bf16 && fp32_accumulation && !offloaded ? EngineKind::Bf16Optimizer : EngineKind::Zero12;
    }
    case 2: return EngineKind::Zero12;
    default: return EngineKind::Zero3;
  }
}

std::int64_t reduction_blocks(std::int64_t n, std::int64_t sm_count) {
  const auto per_thread = ceil_div(n, 512);
  if (per_thread < 256) return 1;
  return std::max(std::min(4 * sm_count, ceil_div(per_thread, 16)), ceil_div(per_thread, 256));
}

NormScratch norm_scratch(std::int64_t n, std::int64_t sm_count) {
  const auto blocks = reduction_blocks(n, sm_count);
  return {blocks > 1 ? 8 * blocks : 0};
}

void buffered_allreduce(Recorder& recorder, const std::vector<std::int64_t>& tensors, std::int64_t width,
                        std::int64_t communication_width, std::uint16_t label) {
  std::int64_t elements = 0, count = 0;
  const auto reduce = [&] {
    const auto flat = count > 1 ? recorder.allocate(width * elements, label) : -1;
    if (communication_width != width) recorder.free(recorder.allocate(communication_width * elements, label));
    if (flat >= 0) recorder.free(flat);
    elements = count = 0;
  };
  for (const auto n : tensors) {
    elements += n;
    ++count;
    if (elements > 500'000'000) reduce();
  }
  if (count > 0) reduce();
}

void Scalars::play(const char* events) {
  std::istringstream in(events);
  for (std::string word; in >> word;) {
    if (word.front() == '-') {
      recorder_.free(take(word.substr(1)));
      continue;
    }
    const auto eq = word.find('=');
    live_.emplace_back(word.substr(0, eq), recorder_.allocate(std::stoll(word.substr(eq + 1)), label_));
  }
}

BlockId Scalars::take(const std::string& name) {
  const auto it = std::find_if(live_.begin(), live_.end(), [&](const auto& l) { return l.first == name; });
  if (it == live_.end()) throw std::logic_error("no scalar " + name);
  const auto block = it->second;
  live_.erase(it);
  return block;
}

void Scalars::rename(const std::string& from, const std::string& to) {
  const auto block = take(from);
  live_.emplace_back(to, block);
}

}  // namespace zplan
