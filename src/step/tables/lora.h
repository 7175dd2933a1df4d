// LoRA and QLoRA adapters on all linears of a layer, bf16 adapters.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// LoRA linear I→O forward, bf16.
inline constexpr TableText GF{"GF", "", R"(
  base  | y0=2NO |    | base
  dtype |        |    | lora_a_weight(
  drop  |        |    | dropout
  A     | la=2Nr |    | lora_a
  B     | lb=2NO |    | lora_b
  scale | ls=2NO | lb
  add   | y=2NO  | ls y0
)"};

// The same where the frozen linear has a bias: addmm adds it in cuBLASLt. bitsandbytes' linear (QL) ends in one as well.
inline constexpr TableText GL{"GL", "GF", R"(
  base  | y0=2NO @cublaslt |  | base
)"};

// LoRA linear backward, gradient to a new tensor <out>.
inline constexpr TableText GB{"GB", "", R"(
  scale | dls=2NO
  B     | dB=2Or dla=2Nr | dls la hook:dB    | lora_b
  A     | dA=2Ir dxl=2NI | dla <sav> hook:dA | lora_a
  drop  |                |                   | dropout
  deq
  base  | dxb=2NI        | <dy>              | base
  sum   | <out>=2NI      | dxl dxb
)"};

// The same for the linear whose backward asks for the recomputation.
inline constexpr TableText GD{"GD", "GB", R"(
  B     | @recompute dB=2Or dla=2Nr | dls la hook:dB | lora_b
)"};

// the same, gradient added into an existing one in place.
inline constexpr TableText GA{"GA", "GB", R"(
  A    | dA=2Ir dxl=2NI | dla <sav> dxl hook:dA | lora_a
  base | dxb=2NI        | <dy> dxb              | base
  sum
)"};

// 4-bit LoRA linear forward.
inline constexpr TableText QF{"QF", "GF", R"(
  base | ab=4IO/64 ac=4IO/64 w=2IO y0=2NO | ac ab w | base
)"};

inline constexpr TableText QL{"QL", "QF", R"(
  base | ab=4IO/64 ac=4IO/64 w=2IO y0=2NO @cublaslt | ac ab w | base
)"};

// backward.
inline constexpr TableText QB{"QB", "GB", R"(
  deq  | am=4IO/64 w=2IO | am
  base | dxb=2NI         | w <dy> | base
)"};

// backward, in place.
inline constexpr TableText QA{"QA", "GA", R"(
  deq  | am=4IO/64 w=2IO | am
  base | dxb=2NI         | w <dy> dxb | base
)"};

// The input takes no gradient (first layer, frozen embedding).
inline constexpr TableText GI{"GI", "GB", R"(
  scale | dls=2NO        | <dy>
  A     | dA=2Ir         | dla <sav> hook:dA | lora_a
  base  |                |                   | base
  sum
)"};
inline constexpr TableText QI{"QI", "GI", ""};

// layer forward, LoRA, bf16.
inline constexpr TableText LG{"LG", "", R"(
  input norm | NZ[a](N,H)                        |                | layer( input_norm
  q_proj     | GF[q](H,A)                        |                | self_attn( q_proj
  q_norm     | NZ[qn](Nh,D)                      | ^ q.y          | q_norm
  k_proj     | GF[k](H,K)                        |                | k_proj
  k_norm     | NZ[kn](Ng,D)                      | ^ k.y          | k_norm
  v_proj     | GF[v](H,K)                        |                | v_proj
  rotary q   | RF[q](A)
  rotary k   | RF[k](K)                          | qn.y kn.y
  sdpa       | seed=8 off=8 o=2NA lse=4Nh cw=256 | cw
  o_proj     | GF[ao](A,H)                       |                | o_proj )self_attn
  residual   | h1=2NH                            | ao.y
  post norm  | NZ[b](N,H)                        |                | post_norm
  gate       | GF[gt](H,F)                       |                | mlp( gate_proj
  silu       | s=2NF                             |                | act_fn
  up         | GF[u](H,F)                        |                | up_proj
  mul        | p=2NF
  down       | GF[d](F,H)                        |                | down_proj )mlp
  residual 2 | out=2NH                           | d.y h1 ^ <xprev> | )layer
)"};

// layer backward, LoRA, bf16.
inline constexpr TableText LH{"LH", "", R"(
  down       | GB[d](F,H){sav=p out=dp}         |                                  | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                    | dp u.y s
  up         | GB[u](H,F){dy=du out=b.dy}       |                                  | up_proj
  silu       | dg=2NF                           | ds gt.y                          | act_fn
  gate       | GA[gt](H,F){sav=b.y dy=dg}       |                                  | gate_proj )mlp
  post norm  | N0[b](N,H)                       | ^ b.dx                           | post_norm
  o_proj     | GB[ao](A,H){out=do}              |                                  | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW | cw do k.r q.r v.y lse o off seed
  rotary k   | RB[kn](K)
  rotary q   | RB[qn](A)
  v_proj     | GB[v](H,K){dy=dv out=a.dy}       |                                  | v_proj
  k_norm     | N0[kn](Ng,D)                     |                                  | k_norm
  reshape k  | dkc=2NK                          | kn.dx
  k_proj     | GA[k](H,K){dy=dkc}               |                                  | k_proj
  q_norm     | N0[qn](Nh,D)                     |                                  | q_norm
  reshape q  | dqc=2NA                          | qn.dx
  q_proj     | GA[q](H,A){sav=a.y dy=dqc}       |                                  | q_proj
  input norm | N0[a](N,H)                       | ^ a.dx                           | input_norm )layer
)"};

// layer backward where the layer's input takes no gradient: o_proj is the last to use dout.
inline constexpr TableText LI{"LI", "LH", R"(
  o_proj     | GB[ao](A,H){dy=dout out=do}      |                                  | self_attn( o_proj
  v_proj     | GI[v](H,K){dy=dv}                |                                  | v_proj
  k_proj     | GI[k](H,K){dy=dkc}               |                                  | k_proj
  q_proj     | GI[q](H,A){sav=a.y dy=dqc}       |                                  | q_proj
  input norm |                                  |                                  | input_norm )layer
)"};

}  // namespace zplan::tables
