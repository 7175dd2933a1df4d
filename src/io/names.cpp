#include "io/names.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <vector>

#include "io/suggest.h"
#include "spec/error.h"

namespace zplan {
namespace {

// One word of a set; the first word of a value is the one that is written.
template <typename Value>
struct Word {
  const char* word;
  Value value;
};

template <typename Value>
using Words = std::initializer_list<Word<Value>>;

template <typename Value>
Value value_of(const Words<Value>& words, const std::string& word, const std::string& where) {
  std::vector<std::string> known;
  for (const Word<Value>& candidate : words) {
    if (word == candidate.word) return candidate.value;
    known.push_back(candidate.word);
  }
  throw InputError(where, "'" + word + "' is none of the choices", "write " + one_of(known));
}

template <typename Value>
std::string word_of(const Words<Value>& words, Value value) {
  for (const Word<Value>& candidate : words) {
    if (candidate.value == value) return candidate.word;
  }
  return "?";
}

constexpr Words<Precision> precisions = {{"bf16", Precision::Bf16}, {"fp16", Precision::Fp16}, {"fp32", Precision::Fp32}};
constexpr Words<Finetune> finetunes = {
    {"full", Finetune::Full}, {"lora", Finetune::Lora}, {"qlora", Finetune::Qlora}, {"freeze", Finetune::Freeze}};
constexpr Words<Attention> attentions = {{"sdpa", Attention::Sdpa},
                                         {"flash", Attention::Flash},
                                         {"eager", Attention::Eager},
                                         {"flash_attention_2", Attention::Flash}};
constexpr Words<OptimizerKind> optimizers = {{"deepspeed-adamw", OptimizerKind::DeepSpeedAdam},
                                             {"torch-adamw-fused", OptimizerKind::TorchAdamFused},
                                             {"torch-adamw-foreach", OptimizerKind::TorchAdamForeach},
                                             {"bitsandbytes-adamw8bit", OptimizerKind::Adam8bit}};
constexpr Words<RecomputeImpl> impls = {{"non-reentrant", RecomputeImpl::NonReentrant},
                                        {"reentrant", RecomputeImpl::Reentrant}};
constexpr Words<Load> loads = {{"cpu", Load::Cpu}, {"gpu", Load::Gpu}};
constexpr Words<Interconnect> interconnects = {{"nvlink", Interconnect::NvLink}, {"pcie", Interconnect::Pcie}};
constexpr Words<OffloadDevice> devices = {
    {"none", OffloadDevice::None}, {"cpu", OffloadDevice::Cpu}, {"nvme", OffloadDevice::Nvme}};

}  // namespace

Precision precision_named(const std::string& word, const std::string& where) { return value_of(precisions, word, where); }
Finetune finetune_named(const std::string& word, const std::string& where) { return value_of(finetunes, word, where); }
Attention attention_named(const std::string& word, const std::string& where) { return value_of(attentions, word, where); }
OptimizerKind optimizer_named(const std::string& word, const std::string& where) {
  return value_of(optimizers, word, where);
}
RecomputeImpl recompute_impl_named(const std::string& word, const std::string& where) {
  return value_of(impls, word, where);
}
Load load_named(const std::string& word, const std::string& where) { return value_of(loads, word, where); }
Interconnect interconnect_named(const std::string& word, const std::string& where) {
  return value_of(interconnects, word, where);
}

Recompute recompute_named(const std::string& word, const std::string& where) {
  Recompute recompute;
  if (word == "none") return recompute;
  recompute.every = 1;
  if (word == "full") return recompute;
  const std::string digits = word.rfind("every-", 0) == 0 ? word.substr(6) : "";
  const bool number = !digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (number) recompute.every = std::stoll(digits);
  if (!number || recompute.every == 0) {
    throw InputError(where, "'" + word + "' is none of the choices", "write none, full or every-N, such as every-2");
  }
  return recompute;
}

std::string precision_name(Precision precision) { return word_of(precisions, precision); }
std::string finetune_name(Finetune finetune) { return word_of(finetunes, finetune); }
std::string attention_name(Attention attention) { return word_of(attentions, attention); }
std::string optimizer_name(OptimizerKind optimizer) { return word_of(optimizers, optimizer); }
std::string recompute_impl_name(RecomputeImpl impl) { return word_of(impls, impl); }
std::string load_name(Load load) { return word_of(loads, load); }
std::string interconnect_name(Interconnect interconnect) { return word_of(interconnects, interconnect); }
std::string offload_name(OffloadDevice device) { return word_of(devices, device); }
std::string recompute_name(const Recompute& recompute) {
  if (!recompute.any()) return "none";
  return recompute.every == 1 ? "full" : "every-" + std::to_string(recompute.every);
}

}  // namespace zplan
