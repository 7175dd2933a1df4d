// Full fine-tuning above frozen layers: the first trainable layer, whose input takes no gradient.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// RMSNorm, trainable weight over an input without gradient: only n is kept, and only dw is made.
inline constexpr TableText NG{"NG", "NF", R"(
  x32 · rs   | n32=4RC | rs x32
)"};
inline constexpr TableText NW{"NW", "", R"(
  mul      | pr=2RC
  sum rows | dw=2C ws=ws(R,C) sem=sem(R,C) | sem ws pr dy n hook:dw
)"};

// layer backward, plain linears and ZeRO-3's: o_proj is the last to use dout.
inline constexpr TableText LW{"LW", "LB", R"(
  o_proj     | dWo=2HA do=2NA | dout hook:dWo | self_attn( o_proj
  input norm | NW[a](N,H)     |               | input_norm )layer
)"};
inline constexpr TableText LV{"LV", "L3", R"(
  o_proj     | do=2NA dWo=2HA | dout hook:dWo | self_attn( o_proj
  input norm | NW[a](N,H)     |               | input_norm )layer
)"};

}  // namespace zplan::tables
