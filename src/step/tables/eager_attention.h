// Eager attention: rows of the dense layer that differ.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// forward, eager: rows sdpa and o_proj become.
inline constexpr TableText EF{"EF", "LF", R"(
  sdpa    | kR=2NA vR=2NA sc=2NhS sm=2NhS | sc
  + mask  | ma=2NhS                       | sm
  softmax | f32=4NhS pr=4NhS              | f32
  to bf16 | pb=2NhS                       | ma
  · v     | av=2NA o=2NA                  | av
  o_proj  | ao=2NH                        | ^ k.r v | o_proj )self_attn
)"};

// backward, eager: rows o_proj and sdpa become, v_proj gets a copy.
inline constexpr TableText EB{"EB", "LB", R"(
  o_proj   | dWo=2HA do=2NA    | o hook:dWo   | self_attn( o_proj
  sdpa     | dvR=2NA dpb=2NhS  | do vR pb
  to fp32  | dp32=4NhS         | dpb
  softmax  | ds32=4NhS st=4NhS | st dp32 pr
  to bf16  | dsb=2NhS          | ds32
  scale    | dsc=2NhS          | dsb
  · k      | dkR=2NA qn.dr=2NA | dsc kR q.r
  sum v    | dv=2NK            | dvR
  sum k    | kn.dr=2NK         | dkR
  v_proj   | dvc=2NK           | dv           | v_proj
  v_proj 2 | dWv=2HK z1=2NH    | dvc hook:dWv
)"};

// The same with ZeRO-3's linear, which makes the input gradient first: rows o_proj and v_proj of L3.
inline constexpr TableText EZ{"EZ", "EB", R"(
  o_proj   | do=2NA dWo=2HA    | o hook:dWo   | self_attn( o_proj
  v_proj 2 | a.dy=2NH dWv=2HK  | dvc hook:dWv
)"};

}  // namespace zplan::tables
