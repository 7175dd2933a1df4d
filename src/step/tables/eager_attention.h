// Eager attention: the rows of a dense layer that differ (modeling_qwen3.py eager_attention_forward).
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Forward. Keys and values are repeated to all heads; the scores stand in 16 and 32 bits.
inline constexpr TableText EF{"EF", "LF", R"(
  sdpa    | kR=2NA vR=2NA sc=2NhS sm=2NhS | sc
  + mask  | ma=2NhS                       | sm
  softmax | f32=4NhS pr=4NhS              | f32
  to bf16 | pb=2NhS                       | ma
  · v     | av=2NA o=2NA                  | av
  o_proj  | ao=2NH                        | ^ k.r v | o_proj )self_attn
)"};

// Nothing kept. The layer holds the attention weights, its unused second result, to its end.
inline constexpr TableText EE{"EE", "LE", R"(
  sdpa       | kR=2NA vR=2NA sc=2NhS sm=2NhS | sc
  + mask     | ma=2NhS                       | sm
  softmax    | f32=4NhS pr=4NhS              | f32
  to bf16    | pb=2NhS                       | pr ma
  · v        | av=2NA o=2NA                  | av kR vR
  o_proj     | ao=2NH                        | ^ o q.r k.r v a.y | o_proj )self_attn
  residual 2 | out=2NH                       | d h1 pb ^ <xprev> | )layer
)"};

// Backward, ZeRO 0-2.
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
  v_proj   | dvc=2NK           | dv
  v_proj 2 | dWv=2HK z1=2NH    | dvc hook:dWv | v_proj
)"};

// Backward, ZeRO-3.
inline constexpr TableText EZ{"EZ", "EB", R"(
  o_proj   | do=2NA dWo=2HA   | o hook:dWo   | self_attn( o_proj
  v_proj 2 | a.dy=2NH dWv=2HK | dvc hook:dWv | v_proj
)"};

// Backward inside non-reentrant checkpointing, ZeRO-3: saved tensors go before the incoming gradient.
inline constexpr TableText EN{"EN", "EZ", R"(
  o_proj   | do=2NA dWo=2HA    | o weight:o_proj hook:dWo   | self_attn( o_proj
  sdpa     | dvR=2NA dpb=2NhS  | pb vR do
  softmax  | ds32=4NhS st=4NhS | st pr dp32
  · k      | dkR=2NA qn.dr=2NA | q.r kR dsc
  v_proj 2 | a.dy=2NH dWv=2HK  | weight:v_proj dvc hook:dWv | v_proj
)"};

// The same, ZeRO 0-2.
inline constexpr TableText EC{"EC", "EB", R"(
  sdpa     | dvR=2NA dpb=2NhS  | pb vR do
  softmax  | ds32=4NhS st=4NhS | st pr dp32
  · k      | dkR=2NA qn.dr=2NA | q.r kR dsc
)"};

}  // namespace zplan::tables
