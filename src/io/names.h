// The words for closed sets: what options, records and results call the values of spec's enums.
// Reading a word that is none throws InputError at `where` with the words there are.
#pragma once

#include <string>

#include "spec/ds_config.h"
#include "spec/hardware.h"
#include "spec/workload.h"

namespace zplan {

Precision precision_named(const std::string& word, const std::string& where);             // bf16 fp16 fp32
Finetune finetune_named(const std::string& word, const std::string& where);               // full lora qlora freeze
Attention attention_named(const std::string& word, const std::string& where);             // sdpa flash eager
OptimizerKind optimizer_named(const std::string& word, const std::string& where);         // deepspeed-adamw ...
Recompute recompute_named(const std::string& word, const std::string& where);             // none full every-N
RecomputeImpl recompute_impl_named(const std::string& word, const std::string& where);    // non-reentrant reentrant
Load load_named(const std::string& word, const std::string& where);                       // cpu gpu
Interconnect interconnect_named(const std::string& word, const std::string& where);       // nvlink pcie

std::string precision_name(Precision precision);
std::string finetune_name(Finetune finetune);
std::string attention_name(Attention attention);
std::string optimizer_name(OptimizerKind optimizer);
std::string recompute_name(const Recompute& recompute);
std::string recompute_impl_name(RecomputeImpl impl);
std::string load_name(Load load);
std::string interconnect_name(Interconnect interconnect);
std::string offload_name(OffloadDevice device);  // none cpu nvme

}  // namespace zplan
