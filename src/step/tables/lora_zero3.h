// LoRA in ZeRO-3. PEFT makes the adapters of a 16-bit model fp32 (autocast_adapter_dtype) and zero.Init leaves them so;
// without that they are in the model's dtype. Linears are zero/linear.py's: the input gradient is made first.
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

// rest, gradient to <out>. Incoming gradients go before saved tensors.
inline constexpr TableText ZB{"ZB", "", R"(
  B       | dla=4Nr dB=4Or | dls la weight:lora_b hook:dB | lora_b
  A       | dxc=4NI dA=4Ir | dla xc weight:lora_a hook:dA | lora_a
  drop    |                |                | dropout
  to bf16 | <out>=2NI      | dxc
  base    | dxb=2NI        | g16 <sav> ^ dxb | base
)"};

// rest, added into an existing gradient.
inline constexpr TableText ZA{"ZA", "ZB", R"(
  to bf16 | dx=2NI  | dxc
)"};

// Inside non-reentrant checkpointing saved tensors go first; the same for the linear whose backward asks for the
// recomputation; added into an existing gradient.
inline constexpr TableText ZC{"ZC", "ZB", R"(
  B       | dla=4Nr dB=4Or | la weight:lora_b dls hook:dB | lora_b
  A       | dxc=4NI dA=4Ir | xc weight:lora_a dla hook:dA | lora_a
  base    | dxb=2NI        | <sav> g16 ^ dxb | base
)"};
inline constexpr TableText ZD{"ZD", "ZC", R"(
  B       | @recompute dla=4Nr dB=4Or | la weight:lora_b dls hook:dB | lora_b
)"};
inline constexpr TableText ZG{"ZG", "ZC", R"(
  to bf16 | dx=2NI  | dxc
)"};

// The input takes no gradient (first layer, frozen embedding): no gradient for the base, none from A.
inline constexpr TableText ZJ{"ZJ", "ZH", R"(
  split   | dls=4NO | g32
)"};
inline constexpr TableText ZI{"ZI", "ZB", R"(
  A       | dA=4Ir | dla xc weight:lora_a hook:dA | lora_a(
  drop
  to bf16
  base
)"};

// Adapters in the model's dtype: the same without casts. The gradient of the base is the incoming one. The forward is
// GF's, or GN's.
inline constexpr TableText ZS{"ZS", "", R"(
  scale   | dls=2NO
)"};
inline constexpr TableText ZT{"ZT", "", R"(
  B       | dla=2Nr dB=2Or   | dls la weight:lora_b hook:dB | lora_b
  A       | <out>=2NI dA=2Ir | dla weight:lora_a hook:dA    | lora_a
  drop    |                  |                              | dropout
  base    | dxb=2NI          | <dy> <sav> ^ dxb             | base
)"};
inline constexpr TableText ZU{"ZU", "ZT", R"(
  A       | dx=2NI dA=2Ir    | dla weight:lora_a hook:dA    | lora_a
)"};
inline constexpr TableText ZV{"ZV", "ZT", R"(
  B       | dla=2Nr dB=2Or   | la weight:lora_b dls hook:dB | lora_b
  A       | <out>=2NI dA=2Ir | weight:lora_a dla hook:dA    | lora_a
  base    | dxb=2NI          | <sav> <dy> ^ dxb             | base
)"};
inline constexpr TableText ZW{"ZW", "ZV", R"(
  B       | @recompute dla=2Nr dB=2Or | la weight:lora_b dls hook:dB | lora_b
)"};
inline constexpr TableText ZX{"ZX", "ZV", R"(
  A       | dx=2NI dA=2Ir    | weight:lora_a dla hook:dA    | lora_a
)"};
inline constexpr TableText ZK{"ZK", "", R"(
  scale   | dls=2NO | <dy>
)"};
inline constexpr TableText ZL{"ZL", "ZT", R"(
  A       | dA=2Ir | dla <sav> weight:lora_a hook:dA | lora_a(
  drop
  base
)"};

// 4-bit base (bitsandbytes' autograd function keeps the weight's state, not its input): it goes with A, which keeps it.
inline constexpr const char* kQuantizedZero3 = R"(
  A       | <out>=2NI dA=2Ir | dla <sav> weight:lora_a hook:dA | lora_a
  drop    |                  |                                 | dropout
  deq     | am=4IO/64 w=2IO  | am                              | base(
  base    | dxb=2NI          | w <dy> ^ dxb                    | )base
)";
inline constexpr TableText Q1{"Q1", "ZT", kQuantizedZero3};
inline constexpr TableText Q2{"Q2", "Q1", R"(
  A       | dx=2NI dA=2Ir    | dla <sav> weight:lora_a hook:dA | lora_a
)"};
inline constexpr const char* kQuantizedRegion = R"(
  B       | dla=2Nr dB=2Or   | la weight:lora_b dls hook:dB    | lora_b
  A       | <out>=2NI dA=2Ir | <sav> weight:lora_a dla hook:dA | lora_a
)";
inline constexpr TableText Q3{"Q3", "Q1", kQuantizedRegion};
inline constexpr TableText Q4{"Q4", "Q3", R"(
  B       | @recompute dla=2Nr dB=2Or | la weight:lora_b dls hook:dB | lora_b
)"};
inline constexpr TableText Q5{"Q5", "Q3", R"(
  A       | dx=2NI dA=2Ir    | <sav> weight:lora_a dla hook:dA | lora_a
)"};

// The recomputation's end: down's adapter runs through B.
inline constexpr TableText Z4{"Z4", "", R"(
  down | d.y0=2NH d.xc=4NF d.la=4Nr d.lb=4NH | d.lb d.y0 h1 | down_proj( d.base d.dropout d.lora_a d.lora_b(
)"};
inline constexpr TableText Z2{"Z2", "", R"(
  down | d.y0=2NH d.la=2Nr d.lb=2NH          | d.lb d.y0 h1 | down_proj( d.base d.dropout d.lora_a d.lora_b(
)"};

inline constexpr TableText Q8{"Q8", "", R"(
  down | d.ab=4FH/64 d.ac=4FH/64 d.w=2FH d.y0=2NH | d.ac d.ab d.w | down_proj( d.base
  stop | d.la=2Nr d.lb=2NH                        | d.lb d.y0 h1  | d.dropout d.lora_a d.lora_b(
)"};

// layer backward.
inline constexpr TableText LM{"LM", "", R"(
  down       | ZH[d](F,H) ZB[d](F,H){sav=p out=dp}            |                                  | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                                  | dp u.y s
  up         | ZH[u](H,F){dy=du} ZB[u](H,F){dy=du out=b.dy}   |                                  | up_proj
  silu       | dg=2NF                                         | ds gt.y                          | act_fn
  gate       | ZH[gt](H,F){dy=dg} ZA[gt](H,F){dy=dg sav=b.y}  | ^ gt.dx                          | gate_proj )mlp
  post norm  | N0[b](N,H)                                     | ^ b.dx                           | post_norm
  o_proj     | ZH[ao](A,H) ZB[ao](A,H){out=do}                |                                  | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW               | cw do k.r q.r v.y lse o off seed
  rotary k   | RB[kn](K)
  rotary q   | RB[qn](A)
  v_proj     | ZH[v](H,K){dy=dv} ZB[v](H,K){dy=dv out=a.dy}   |                                  | v_proj
  k_norm     | N0[kn](Ng,D)                                   |                                  | k_norm
  reshape k  | dkc=2NK                                        | kn.dx
  k_proj     | ZH[k](H,K){dy=dkc} ZA[k](H,K){dy=dkc}          | ^ k.dx                           | k_proj
  q_norm     | N0[qn](Nh,D)                                   |                                  | q_norm
  reshape q  | dqc=2NA                                        | qn.dx
  q_proj     | ZH[q](H,A){dy=dqc} ZA[q](H,A){dy=dqc sav=a.y}  | ^ q.dx                           | q_proj
  input norm | N0[a](N,H)                                     | ^ a.dx                           | input_norm )layer
)"};

// The layer's input takes no gradient: o_proj is the last to use dout. A module's hook after its backward runs where its
// input takes a gradient (parameter_offload.py, PostBackwardFunctionModule).
inline constexpr TableText LO{"LO", "LM", R"(
  o_proj     | ZH[ao](A,H){dy=dout} ZB[ao](A,H){dy=dout out=do} |                                | self_attn( o_proj
  v_proj     | ZJ[v](H,K){dy=dv} ZI[v](H,K)                   |                                  | v_proj(
  k_proj     | ZJ[k](H,K){dy=dkc} ZI[k](H,K)                  |                                  | k_proj(
  q_proj     | ZJ[q](H,A){dy=dqc} ZI[q](H,A){sav=a.y}         |                                  | q_proj(
  input norm
)"};

// Non-reentrant checkpointing.
inline constexpr TableText LZ{"LZ", "LM", R"(
  down       | ZH[d](F,H) ZD[d](F,H){sav=p out=dp}            |                                  | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                                  | s u.y dp
  up         | ZH[u](H,F){dy=du} ZC[u](H,F){dy=du out=b.dy}   |                                  | up_proj
  silu       | dg=2NF                                         | gt.y ds                          | act_fn
  gate       | ZH[gt](H,F){dy=dg} ZG[gt](H,F){dy=dg sav=b.y}  | ^ gt.dx                          | gate_proj )mlp
  post norm  | NY[b](N,H)                                     | ^ b.dx                           | post_norm
  o_proj     | ZH[ao](A,H) ZC[ao](A,H){out=do}                |                                  | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW               | cw seed off o lse v.y q.r k.r do
  v_proj     | ZH[v](H,K){dy=dv} ZC[v](H,K){dy=dv out=a.dy}   |                                  | v_proj
  k_norm     | NY[kn](Ng,D)                                   |                                  | k_norm
  k_proj     | ZH[k](H,K){dy=dkc} ZG[k](H,K){dy=dkc}          | ^ k.dx                           | k_proj
  q_norm     | NY[qn](Nh,D)                                   |                                  | q_norm
  q_proj     | ZH[q](H,A){dy=dqc} ZG[q](H,A){dy=dqc sav=a.y}  | ^ q.dx                           | q_proj
  input norm | NY[a](N,H){xin=x}                              | ^ a.dx                           | input_norm )layer
)"};

// Reentrant checkpointing: as R3.
inline constexpr TableText LY{"LY", "LM", R"(
  post norm  | N0[b](N,H) dh=2NH | ^ b.dx                  | post_norm
  input norm | N0[a](N,H)        | ^ a.dx                  | input_norm )layer
  end        |                   | out dout x dout:=dh
)"};

}  // namespace zplan::tables
