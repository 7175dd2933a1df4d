// RMSNorm as written in transformers (fp32 inside, weight multiplied in bf16) and the rotary embedding.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// forward, weight trainable, R rows of C.
inline constexpr TableText NF{"NF", "", R"(
  to fp32    | x32=4RC
  pow 2      | sq=4RC
  mean       | ms=4R   | sq
  + eps      | me=4R
  rsqrt      | rs=4R   | me
  x32 · rs   | n32=4RC
  to bf16    | n=2RC
  weight · n | y=2RC   | n32 ms
)"};

// forward, weight frozen (LoRA).
inline constexpr TableText NZ{"NZ", "NF", R"(
  weight · n | y=2RC | n n32 ms
)"};

// forward, nothing recorded (no_grad, eval, checkpointed region, or input and weight without gradient).
inline constexpr TableText NE{"NE", "NZ", R"(
  x32 · rs | n32=4RC | rs x32
)"};

// backward, weight trainable; gradient comes in as dy, leaves as dx.
inline constexpr TableText NB{"NB", "", R"(
  mul      | dn=2RC pr=2RC
  sum rows | dw=2C ws=ws(R,C) sem=sem(R,C) | sem ws pr dy n hook:<head> hook:dw
  to fp32  | d32=4RC                       | dn
  mul32    | e1=4RC e2=4RC es=4R           | e1 d32
  rsqrt    | a1=4R a2=4R a3=4R             | a2 a1 es rs
  mean     | m=4RC                         | a3
  pow      | w1=4RC w2=4RC w3=4RC          | w2 w1 m x32 w3
  to bf16  | dx=2RC                        | e2
)"};

// backward, weight frozen.
inline constexpr TableText N0{"N0", "NB", R"(
  mul      | dn=2RC | dy
  sum rows
)"};

// backward inside non-reentrant checkpointing.
inline constexpr TableText NQ{"NQ", "NB", R"(
  mul      | dn=2RC pr=2RC                 | weight:w n
  sum rows | dw=2C ws=ws(R,C) sem=sem(R,C) | sem ws pr dy hook:dw
  rsqrt    | a1=4R a2=4R a3=4R             | a2 a1 rs es
  pow      | w1=4RC w2=4RC w3=4RC          | w2 w1 x32 m <xin> w3
)"};

// backward, weight frozen, inside non-reentrant checkpointing.
inline constexpr TableText NY{"NY", "N0", R"(
  rsqrt | a1=4R a2=4R a3=4R    | a2 a1 rs es
  pow   | w1=4RC w2=4RC w3=4RC | w2 w1 x32 m <xin> w3
)"};

// rotary of C columns, forward (cos and sin are shared, nothing else kept).
inline constexpr TableText RF{"RF", "", R"(
  · cos | t1=2NC
  -half | t2=NC
  cat   | t3=2NC | t2
  · sin | t4=2NC | t3
  add   | r=2NC  | t1 t4
)"};

// rotary backward: dr in, dy out.
inline constexpr TableText RB{"RB", "", R"(
  sin     | c1=2NC | <sin>
  neg     | c2=NC
  slice   | dy=2NC | c2
  slice 2 | c4=2NC | c1 c4
  cos     | c5=2NC | dr <cos> c5
)"};

}  // namespace zplan::tables
