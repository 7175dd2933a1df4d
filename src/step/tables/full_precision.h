// fp32 training: the rows that are not those of 16 bits at twice the width. Casts are no copies, the norm keeps its
// input, and sdpa has no fused kernel (math path, aten/src/ATen/native/transformers/attention.cpp
// _scaled_dot_product_attention_math; grouped heads keep the memory-efficient kernel out).
// The attention's rows are written in 16 bits like those they replace: step/full_precision.h doubles them.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// RMSNorm forward: its input stays. Then with nothing kept.
inline constexpr TableText NS{"NS", "", R"(
  pow 2      | sq=4RC
  mean       | ms=4R  | sq
  + eps      | me=4R
  rsqrt      | rs=4R  | me
  x · rs     | n=4RC
  weight · n | y=4RC  | ms
)"};
inline constexpr TableText NI{"NI", "NS", R"(
  x · rs     | n=4RC  | rs
  weight · n | y=4RC  | n ms
)"};

// Backward; the input's gradient is dx. <x> is the norm's input.
inline constexpr TableText NT{"NT", "", R"(
  mul      | dn=4RC pr=4RC
  sum rows | dw=4C ws=ws(R,C) sem=sem(R,C) | sem ws pr dy n hook:<head> hook:dw
  mul32    | e1=4RC dx=4RC es=4R           | e1 dn
  rsqrt    | a1=4R a2=4R a3=4R             | a2 a1 es rs
  mean     | m=4RC                         | a3
  pow      | w1=4RC w2=4RC w3=4RC          | w2 w1 m <x> w3
)"};
// Backward where the gradient is added into the running one in place.
inline constexpr TableText NU{"NU", "NT", R"(
  mul32    | e1=4RC dx=4RC es=4R           | e1 dn dx
)"};
// Backward where the running gradient belongs to another graph: their sum is new.
inline constexpr TableText NN{"NN", "NT", R"(
  mul32    | e1=4RC dx=4RC es=4R           | e1 dn
  sum      | dh=4RC                        | dx
)"};
// Backward inside non-reentrant checkpointing; the second adds in place.
inline constexpr TableText NJ{"NJ", "NT", R"(
  mul      | dn=4RC pr=4RC                 | weight:w n
  sum rows | dw=4C ws=ws(R,C) sem=sem(R,C) | sem ws pr dy hook:dw
  rsqrt    | a1=4R a2=4R a3=4R             | a2 a1 rs es
  pow      | w1=4RC w2=4RC w3=4RC          | w2 w1 <x> m <xin> w3
)"};
inline constexpr TableText NO{"NO", "NJ", R"(
  mul32    | e1=4RC dx=4RC es=4R           | e1 dn dx
)"};

inline constexpr TableText RS{"RS", "", R"(
  · cos | t1=4NC
  -half | t2=2NC
  cat   | t3=4NC | t2
  · sin | t4=4NC | t3
  add   | r=4NC  | t1 t4
)"};
inline constexpr TableText RT{"RT", "", R"(
  sin     | c1=4NC | <sin>
  neg     | c2=2NC
  slice   | dy=4NC | c2
  slice 2 | c4=4NC | c1 c4
  cos     | c5=4NC | dr <cos> c5
)"};

// Attention in place of a layer's `sdpa`, forward. With several rows (XG) the scaled queries are not contiguous: the
// product keeps a copy.
inline constexpr TableText XF{"XF", "", R"(
  sdpa       | sq=2NA
  mask       | m1=SS m2=SS                | m1
  mask 2     | i1=4 i2=4 am=2SS           | i2 i1 m2
  repeat     | kr=2NA vr=2NA
  scale k    | sk=2NA
  scores     | sc=2NhS
  softmax    | pr=2NhS ni=NhS al=Nh fl=4  | fl al ni sc
  · v        | av=2NA                     | kr am
  contiguous | o=2NA                      | av
)"};
inline constexpr TableText XG{"XG", "XF", R"(
  scores     | qc=2NA sc=2NhS
  · v        | av=2NA                     | kr sq am
)"};

// Nothing kept.
inline constexpr TableText XE{"XE", "XF", R"(
  scores     | sc=2NhS                    | sk
  · v        | av=2NA                     | kr vr sq am pr
)"};
inline constexpr TableText XH{"XH", "XE", R"(
  scores     | qc=2NA sc=2NhS             | qc sk
)"};

// Backward.
inline constexpr TableText XB{"XB", "", R"(
  sdpa       | dvr=2NA dp=2NhS            | do vr
  softmax    | dsc=2NhS st=2NhS           | st dp pr
  scores     | dkr=2NA dqs=2NA            | dsc sk sq
  scale k    | dks=2NA                    | dkr
  sum v      | dv=2NK                     | dvr
  sum k      | kn.dr=2NK                  | dks
  scale q    | qn.dr=2NA                  | dqs
)"};
inline constexpr TableText XI{"XI", "XB", R"(
  sdpa       | doc=2NA                    | do
  · v        | dvr=2NA dp=2NhS            | doc vr
  scores     | dkr=2NA dqs=2NA            | dsc sk qc
)"};

// Backward inside non-reentrant checkpointing: saved tensors go before the incoming gradient.
inline constexpr TableText XC{"XC", "XB", R"(
  sdpa       | dvr=2NA dp=2NhS            | vr do
  softmax    | dsc=2NhS st=2NhS           | st pr dp
  scores     | dkr=2NA dqs=2NA            | sq sk dsc
)"};
inline constexpr TableText XJ{"XJ", "XB", R"(
  sdpa       | doc=2NA                    | do
  · v        | dvr=2NA dp=2NhS            | vr doc
  softmax    | dsc=2NhS st=2NhS           | st pr dp
  scores     | dkr=2NA dqs=2NA            | qc sk dsc
)"};

// Over eager attention's rows: the softmax has its scores' width, and its result no second copy. Forward, backward, and
// that inside non-reentrant checkpointing.
inline constexpr TableText YF{"YF", "", R"(
  softmax | pr=2NhS        | ma
  to bf16
)"};
inline constexpr TableText YB{"YB", "", R"(
  sdpa    | dvR=2NA dp=2NhS  | do vR
  to fp32
  softmax | ds=2NhS st=2NhS  | st dp pr
  to bf16
  scale   | dsc=2NhS         | ds
)"};
inline constexpr TableText YC{"YC", "YB", R"(
  sdpa    | dvR=2NA dp=2NhS  | vR do
  softmax | ds=2NhS st=2NhS  | st pr dp
)"};

// Before the layers: the rotary tables stay as they are made.
inline constexpr TableText PS{"PS", "PF", R"(
  embedding | emb=4NH                                        |               | root( model( embed_tokens
  rope      | pf=4S fr=2SD @cublas em=4SD c1=4SD cos=4SD      | c1            | rotary_emb(
  rope 2    | s1=4SD sin=4SD                                 | s1 pf fr em   | )rotary_emb
  rope 3
)"};

}  // namespace zplan::tables
