// One dense decoder layer under activation checkpointing.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// forward with nothing kept: checkpointed region, eval.
inline constexpr TableText LE{"LE", "", R"(
  input norm | NE[a](N,H)                        |                 | layer( input_norm
  q_proj     | q=2NA @cublas                     |                 | self_attn( q_proj
  q_norm     | NE[qn](Nh,D)                      | ^ q             | q_norm
  k_proj     | k=2NK                             |                 | k_proj
  k_norm     | NE[kn](Ng,D)                      | ^ k             | k_norm
  v_proj     | v=2NK                             |                 | v_proj
  rotary q   | RF[q](A)
  rotary k   | RF[k](K)                          | qn.y kn.y
  sdpa       | seed=8 off=8 o=2NA lse=4Nh cw=256 | cw lse seed off
  o_proj     | ao=2NH                            | ^ o q.r k.r v a.y | o_proj )self_attn
  residual   | h1=2NH                            | ao
  post norm  | NE[b](N,H)                        |                 | post_norm
  gate       | gt=2NF                            |                 | mlp( gate_proj
  silu       | s=2NF                             | ^ gt            | act_fn
  up         | u=2NF                             |                 | up_proj
  mul        | p=2NF                             | s u
  down       | d=2NH                             | ^ p b.y         | down_proj )mlp
  residual 2 | out=2NH                           | d h1 ^ <xprev>  | )layer
)"};

// Backward in non-reentrant checkpointing, ZeRO-3: the recomputation starts when the first node asks for a saved
// tensor, so the incoming gradient is there already.
inline constexpr TableText LN{"LN", "L3", R"(
  down       | @recompute dp=2NF dWd=2HF        | p hook:dWd                     | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                    | s u dp
  up         | b.dy=2NH dWu=2HF                 | weight:up_proj du hook:dWu     | up_proj
  silu       | dg=2NF                           | gt ds                          | act_fn
  gate       | z2=2NH dWg=2HF                   | b.y weight:gate_proj dg hook:dWg ^ z2 | gate_proj )mlp
  post norm  | NQ[b](N,H)                       | ^ b.dx                         | post_norm
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW | cw seed off o lse v q.r k.r do
  o_proj     | do=2NA dWo=2HA                   | weight:o_proj hook:dWo         | self_attn( o_proj
  v_proj     | a.dy=2NH dWv=2HK                 | weight:v_proj dv hook:dWv      | v_proj
  k_norm     | NQ[kn](Ng,D)                     |                                | k_norm
  k_proj     | z2=2NH dWk=2HK                   | weight:k_proj dkc hook:dWk ^ z2 | k_proj
  q_norm     | NQ[qn](Nh,D)                     |                                | q_norm
  q_proj     | z3=2NH dWq=2HA                   | a.y weight:q_proj dqc hook:dWq ^ z3 | q_proj
  input norm | NQ[a](N,H){xin=x}                | ^ a.dx                         | input_norm )layer
)"};

// Backward in non-reentrant checkpointing, ZeRO 0-2: the same replacements over the plain linear's order.
inline constexpr TableText LC{"LC", "LB", R"(
  down       | @recompute dWd=2HF dp=2NF        | p hook:dWd                     | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                    | s u dp
  silu       | dg=2NF                           | gt ds                          | act_fn
  gate       | dWg=2HF z2=2NH                   | b.y dg                         | gate_proj
  post norm  | NQ[b](N,H)                       | ^ b.dx                         | post_norm
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW | cw seed off o lse v q.r k.r do
  k_norm     | NQ[kn](Ng,D)                     |                                | k_norm
  q_norm     | NQ[qn](Nh,D)                     |                                | q_norm
  q_proj     | dWq=2HA z3=2NH                   | a.y dqc z3 hook:dWq            | q_proj
  input norm | NQ[a](N,H){xin=x}                | ^ a.dx                         | input_norm )layer
)"};

// Backward in reentrant checkpointing, ZeRO 0-2: the whole forward is run again first (`out` stays); dout belongs to
// the outer graph, so the first sum is a new tensor, which becomes the next layer's dout.
inline constexpr TableText LR{"LR", "LB", R"(
  post norm  | NB[b](N,H)        |                         | post_norm
  first sum  | dh=2NH            | b.dx
  input norm | NB[a](N,H)        | ^ a.dx                  | input_norm )layer
  end        |                   | out dout x dout:=dh
)"};

// Reentrant, ZeRO-3.
inline constexpr TableText R3{"R3", "L3", R"(
  post norm  | NB[b](N,H)        |                         | post_norm
  first sum  | dh=2NH            | b.dx
  input norm | NB[a](N,H)        | ^ a.dx                  | input_norm )layer
  end        |                   | out dout x dout:=dh
)"};

}  // namespace zplan::tables
