// LoRA in ZeRO-3: PEFT makes the adapters fp32 and zero.Init leaves them so.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// linear forward, nothing kept.
inline constexpr TableText ZE{"ZE", "", R"(
  base    | y0=2NO |            | base
  dtype   |        |            | lora_a_weight(
  to fp32 | xc=4NI
  drop    |        |            | dropout
  A       | la=4Nr |            | lora_a
  B       | lb=4NO | ^ la       | lora_b
  scale   | ls=4NO | lb
  add     | ad=4NO | ls y0
  to bf16 | y=2NO  | ad xc <fr>
)"};

// linear forward, kept: xc la and the bf16 input (the ZeRO-3 linear keeps it although the weight is frozen).
inline constexpr TableText ZF{"ZF", "ZE", R"(
  B       | lb=4NO |    | lora_b
  to bf16 | y=2NO  | ad
)"};

// start of a linear's backward.
inline constexpr TableText ZH{"ZH", "", R"(
  to fp32 | g32=4NO         | <dy>
  split   | g16=2NO dls=4NO | g32
)"};

// rest, gradient to <out>.
inline constexpr TableText ZB{"ZB", "", R"(
  B       | dla=4Nr dB=4Or | la weight:lora_b dls hook:dB | lora_b
  A       | dxc=4NI dA=4Ir | xc weight:lora_a dla hook:dA | lora_a
  drop    |                |                | dropout
  to bf16 | <out>=2NI      | dxc
  base    | dxb=2NI        | <sav> g16 ^ dxb | base
)"};

// The same for the linear whose backward asks for the recomputation.
inline constexpr TableText ZD{"ZD", "ZB", R"(
  B       | @recompute dla=4Nr dB=4Or | la weight:lora_b dls hook:dB | lora_b
)"};

// rest, added into an existing gradient.
inline constexpr TableText ZA{"ZA", "ZB", R"(
  to bf16 | dx=2NI  | dxc
  base    | dxb=2NI | <sav> g16 ^ dxb | base
)"};

// layer backward, ZeRO-3 LoRA, non-reentrant.
inline constexpr TableText LZ{"LZ", "", R"(
  down       | ZH[d](F,H) ZD[d](F,H){sav=p out=dp}            |                                  | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                           | s u.y dp
  up         | ZH[u](H,F){dy=du} ZB[u](H,F){out=b.dy}  |                                  | up_proj
  silu       | dg=2NF                                  | gt.y ds                          | act_fn
  gate       | ZH[gt](H,F){dy=dg} ZA[gt](H,F){sav=b.y} | ^ gt.dx | gate_proj )mlp
  post norm  | NY[b](N,H)                              | ^ b.dx                           | post_norm
  o_proj     | ZH[ao](A,H) ZB[ao](A,H){out=do}         |                                  | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW        | cw seed off o lse v.y q.r k.r do
  rotary k   | RB[kn](K)
  rotary q   | RB[qn](A)
  v_proj     | ZH[v](H,K){dy=dv} ZB[v](H,K){out=a.dy}  |                                  | v_proj
  k_norm     | NY[kn](Ng,D)                            |                                  | k_norm
  reshape k  | dkc=2NK                                 | kn.dx
  k_proj     | ZH[k](H,K){dy=dkc} ZA[k](H,K)           | ^ k.dx | k_proj
  q_norm     | NY[qn](Nh,D)                            |                                  | q_norm
  reshape q  | dqc=2NA                                 | qn.dx
  q_proj     | ZH[q](H,A){dy=dqc} ZA[q](H,A){sav=a.y}  | ^ q.dx | q_proj
  input norm | NY[a](N,H){xin=x}                       | ^ a.dx                           | input_norm )layer
)"};

}  // namespace zplan::tables
