// Liger's RMSNorm, rotary embedding and SwiGLU (linkedin/Liger-Kernel ops/rms_norm.py, rope.py, swiglu.py), patched in
// before construction, below ZeRO-3: the norm keeps its input and rstd, the others work in place.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Norm forward.
inline constexpr TableText NK{"NK", "", R"(
  norm | y=2RC rs=4R
)"};
// Backward: the input's gradient is written over dy; one partial weight gradient a multiprocessor.
inline constexpr TableText NL{"NL", "", R"(
  norm | wp=4CP ds=4C dw=2C | ds wp <x> rs hook:<head> hook:dw
)"};
// Backward, added into the running gradient in place.
inline constexpr TableText NM{"NM", "", R"(
  norm | wp=4CP ds=4C dw=2C | ds wp <x> rs dy hook:dw
)"};
// Backward of the top layer's post norm: the caller adds dy to a gradient that Liger's loss still holds.
inline constexpr TableText NV{"NV", "", R"(
  norm | wp=4CP ds=4C dw=2C | ds wp <x> rs
)"};

// layer forward.
inline constexpr TableText VF{"VF", "", R"(
  input norm | NK[a](N,H)                        |                | layer( input_norm
  q_proj     | q=2NA @cublas                     |                | self_attn( q_proj
  q_norm     | NK[qn](Nh,D)                      |                | q_norm
  k_proj     | k=2NK                             |                | k_proj
  k_norm     | NK[kn](Ng,D)                      |                | k_norm
  v_proj     | v=2NK                             |                | v_proj
  sdpa       | seed=8 off=8 o=2NA lse=4Nh cw=256 | cw
  o_proj     | ao=2NH                            |                | o_proj )self_attn
  residual   | h1=2NH                            | ao
  post norm  | NK[b](N,H)                        |                | post_norm
  gate       | gt=2NF                            |                | mlp( gate_proj
  up         | u=2NF                             |                | up_proj
  mul        | p=2NF                             |                | act_fn
  down       | d=2NH                             |                | down_proj )mlp
  residual 2 | out=2NH                           | d              | )layer
)"};

// layer backward, plain linears; SwiGLU writes its gradients over gate and up.
inline constexpr TableText VB{"VB", "", R"(
  down       | dWd=2HF @cublas dp=2NF           | p hook:dWd dp       | layer( mlp( down_proj
  up         | dWu=2HF z1=2NH                   | u hook:dWu          | up_proj
  gate       | dWg=2HF z2=2NH                   | gt b.y              | gate_proj
  sum        | b.dy=2NH                         | z1 z2 hook:dWg      | )mlp
  post norm  | NM[b](N,H){x=h1}                 |                     | post_norm
  o_proj     | dWo=2HA do=2NA                   | hook:dWo            | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW | cw do kn.y qn.y v lse o off seed
  rope
  v_proj     | dWv=2HK z1=2NH                   | dv hook:dWv         | v_proj
  k_norm     | NL[kn](Ng,D){x=k}                |                     | k_norm
  k_proj     | dWk=2HK z2=2NH                   | kn.dr               | k_proj
  sum 2      | a.dy=2NH                         | z1 z2 hook:dWk
  q_norm     | NL[qn](Nh,D){x=q}                |                     | q_norm
  q_proj     | dWq=2HA z3=2NH                   | qn.dr a.y z3 hook:dWq | q_proj
  input norm | NM[a](N,H){x=x}                  |                     | input_norm )layer
)"};
// The top layer under Liger's loss.
inline constexpr TableText VT{"VT", "VB", R"(
  post norm  | NV[b](N,H){x=h1}                 |                     | post_norm
  top sum    | dh=2NH                           | dout b.dy hook:b.dw dout:=dh
)"};

// Final norm, and Liger's loss, whose gradient of the norm's output becomes the running gradient.
inline constexpr TableText VH{"VH", "HF", R"(
  final norm    | NK[f](N,H)
  model returns |                  | pos           | )model
)"};
inline constexpr TableText VL{"VL", "HL", R"(
  final norm    | NK[f](N,H)                            |       | final_norm
  model returns |                                       | pos   | )model
  buffers       | dout=2NH gw=2VH l1=4N mk=N cn=8 cr=8N | cr cn
)"};
inline constexpr TableText VK{"VK", "HK", R"(
  final norm  | NL[f](N,H){x=xlast head=HEAD} |    | model( final_norm
)"};

// Without Liger's loss: the head's input gradient is the running gradient.
inline constexpr TableText VX{"VX", "HB", R"(
  lm_head     | dWh=2VH @cublas dout=2NH | gl f.y hook:<UNTIED> | lm_head
  final norm  | NL[f](N,H){x=xlast head=HEAD} |    | model( final_norm
)"};

}  // namespace zplan::tables
