// torch.autocast over an fp32 model (DeepSpeed's torch_autocast), plain linears: the residual stream and the norms are
// fp32, linears and attention cast their inputs and weights. Autocast keeps a weight's copy for the micro-step and makes
// an input's anew for every linear (aten/src/ATen/autocast_mode.cpp, cached_cast).
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// RMSNorm of a 16-bit projection: an fp32 weight makes its output fp32.
inline constexpr TableText NP{"NP", "NF", R"(
  weight · n | y=4RC  | n32 ms
)"};
inline constexpr TableText NR{"NR", "NB", R"(
  mul        | dn=4RC pr=4RC
  sum rows   | dw=4C ws=ws(R,C) sem=sem(R,C) | sem ws pr
  narrow     | db=2RC                        | dn dy n hook:dw
  to fp32    | d32=4RC                       | db
)"};

// layer forward.
inline constexpr TableText AF{"AF", "", R"(
  input norm | NS[a](N,H)                  |               | layer( input_norm
  q_proj     | wq=2HA xq=2NH q=2NA @cublas |               | self_attn( q_proj
  q_norm     | NP[qn](Nh,D)                | ^ q           | q_norm
  k_proj     | wk=2HK xk=2NH k=2NK         |               | k_proj
  k_norm     | NP[kn](Ng,D)                | ^ k           | k_norm
  v_proj     | wv=2HK xv=2NH v=2NK         |               | v_proj
  rotary q   | RS[q](A)
  rotary k   | RS[k](K)                    | qn.y kn.y
  sdpa       | kb=2NK qb=2NA seed=8 off=8 o=2NA lse=4Nh cw=256 | cw
  o_proj     | wo=2HA ao=2NH               | ^ q.r k.r a.y | o_proj )self_attn
  residual   | h1=4NH                      | ao
  post norm  | NS[b](N,H)                  |               | post_norm
  gate       | wg=2HF xg=2NH gt=2NF        |               | mlp( gate_proj
  silu       | s=2NF                       |               | act_fn
  up         | wu=2HF xu=2NH u=2NF         |               | up_proj
  mul        | p=2NF
  down       | wd=2HF d=2NH                | b.y           | down_proj )mlp
  residual 2 | out=4NH                     | d             | )layer
)"};

// layer backward: an input's gradient is cast before its weight's.
inline constexpr TableText AB{"AB", "", R"(
  down       | gd=2NH dWb=2HF @cublas dp=2NF | gd wd p        | layer( mlp( down_proj
  down cast  | dWd=4HF                     | dWb hook:dWd
  mul        | du=2NF ds=2NF               | dp u s
  up         | dWb=2HF zb=2NH              | du wu xu         | up_proj
  up cast    | b.dy=4NH                    | zb
  up cast 2  | dWu=4HF                     | dWb hook:dWu
  silu       | dg=2NF                      | ds gt            | act_fn
  gate       | dWb=2HF zb=2NH              | dg wg xg         | gate_proj
  gate cast  | z2=4NH                      | zb z2
  gate cast 2 | dWg=4HF                    | dWb hook:dWg     | )mlp
  post norm  | NU[b](N,H){x=h1}            |                  | post_norm
  o_proj     | go=2NH dWb=2HA do=2NA       | go wo            | self_attn( o_proj
  o_proj cast | dWo=4HA                    | dWb hook:dWo
  sdpa       | qd=2NA kd=2NK dv=2NK cw=CW  | cw do kb qb v lse o off seed
  sdpa cast  | qn.dr=4NA                   | qd
  sdpa cast 2 | kn.dr=4NK                  | kd
  rotary k   | RT[kn](K)
  rotary q   | RT[qn](A)
  v_proj     | dWb=2HK zb=2NH              | dv wv xv         | v_proj
  v_proj cast | a.dy=4NH                   | zb
  v_proj cast 2 | dWv=4HK                  | dWb hook:dWv
  k_norm     | NR[kn](Ng,D)                |                  | k_norm
  reshape k  | dkc=2NK                     | kn.dx
  k_proj     | dWb=2HK zb=2NH              | dkc wk xk        | k_proj
  k_proj cast | z2=4NH                     | zb z2
  k_proj cast 2 | dWk=4HK                  | dWb hook:dWk
  q_norm     | NR[qn](Nh,D)                |                  | q_norm
  reshape q  | dqc=2NA                     | qn.dx
  q_proj     | dWb=2HA zb=2NH              | dqc wq xq        | q_proj
  q_proj cast | z2=4NH                     | zb z2
  q_proj cast 2 | dWq=4HA                  | dWb hook:dWq
  input norm | NU[a](N,H){x=x}             |                  | input_norm )layer
)"};

// Around the layers; before them stand fp32's.
inline constexpr TableText AH{"AH", "HF", R"(
  final norm    | NS[f](N,H)                  |          | final_norm
  model returns |                             | pos      | )model
  lm_head       | wh=2VH xh=2NH lg=2NV @cublas |         | lm_head
  return        |                             | f.y ^ lg | )causal_lm )lora_model )root
)"};
inline constexpr TableText AM{"AM", "AH", R"(
  labels        | pad=8N+8B lab=8N
  cross entropy | ls=4NV l1=4 l2=4 | lf pad
)"};
inline constexpr TableText AL{"AL", "HB", R"(
  lm_head       | dWb=2VH @cublas zb=2NH      | gl wh xh | lm_head
  head cast     | f.dy=4NH                    | zb
  head cast 2   | dWh=4VH                     | dWb hook:<UNTIED>
  final norm    | NT[f](N,H){x=xlast head=HEAD} |        | model( final_norm
)"};
// The head's gradient is a cast's result: the embedding's is added to it in place.
inline constexpr TableText AT{"AT", "", R"(
  embedding | dE=4VH | dout dE hook:head | embed_tokens(
)"};

// ZeRO-3: zero/linear.py keeps its input and asks for the weight again, so that both are cast anew in every product.
inline constexpr TableText AX{"AX", "AF", R"(
  q_proj     | wq=2HA xq=2NH q=2NA @cublas | xq wq ^       | self_attn( q_proj
  k_proj     | wk=2HK xk=2NH k=2NK         | xk wk ^       | k_proj
  v_proj     | wv=2HK xv=2NH v=2NK         | xv wv ^       | v_proj
  o_proj     | wo=2HA ao=2NH               | wo ^ q.r k.r  | o_proj )self_attn
  gate       | wg=2HF xg=2NH gt=2NF        | xg wg ^       | mlp( gate_proj
  up         | wu=2HF xu=2NH u=2NF         | xu wu ^       | up_proj
  down       | wd=2HF d=2NH                | wd ^          | down_proj )mlp
)"};
inline constexpr TableText AY{"AY", "", R"(
  down       | gd=2NH wd=2HF @cublas dp=2NF dWb=2HF | wd  | layer( mlp( down_proj(
  down cast  | dWd=4HF                     | dWb gd p hook:dWd | )down_proj
  mul        | du=2NF ds=2NF               | dp u s
  up         | wu=2HF zb=2NH xu=2NH dWb=2HF | xu wu       | up_proj(
  up cast    | b.dy=4NH                    | zb
  up cast 2  | dWu=4HF                     | dWb du hook:dWu | )up_proj
  silu       | dg=2NF                      | ds gt        | act_fn
  gate       | wg=2HF zb=2NH xg=2NH dWb=2HF | xg wg       | gate_proj(
  gate cast  | z2=4NH                      | zb
  gate cast 2 | dWg=4HF                    | dWb dg b.y hook:dWg ^ z2 | )gate_proj )mlp
  post norm  | NT[b](N,H){x=h1}            | ^ b.dx       | post_norm
  o_proj     | go=2NH wo=2HA do=2NA dWb=2HA | wo          | self_attn( o_proj(
  o_proj cast | dWo=4HA                    | dWb go hook:dWo | )o_proj
  sdpa       | qd=2NA kd=2NK dv=2NK cw=CW  | cw do kb qb v lse o off seed
  sdpa cast  | qn.dr=4NA                   | qd
  sdpa cast 2 | kn.dr=4NK                  | kd
  rotary k   | RT[kn](K)
  rotary q   | RT[qn](A)
  v_proj     | wv=2HK zb=2NH xv=2NH dWb=2HK | xv wv       | v_proj(
  v_proj cast | a.dy=4NH                   | zb
  v_proj cast 2 | dWv=4HK                  | dWb dv hook:dWv | )v_proj
  k_norm     | NR[kn](Ng,D)                |              | k_norm
  reshape k  | dkc=2NK                     | kn.dx
  k_proj     | wk=2HK zb=2NH xk=2NH dWb=2HK | xk wk       | k_proj(
  k_proj cast | z2=4NH                     | zb
  k_proj cast 2 | dWk=4HK                  | dWb dkc hook:dWk ^ z2 | )k_proj
  q_norm     | NR[qn](Nh,D)                |              | q_norm
  reshape q  | dqc=2NA                     | qn.dx
  q_proj     | wq=2HA zb=2NH xq=2NH dWb=2HA | xq wq       | q_proj(
  q_proj cast | z3=4NH                     | zb
  q_proj cast 2 | dWq=4HA                  | dWb dqc a.y hook:dWq ^ z3 | )q_proj
  input norm | NT[a](N,H){x=x}             | ^ a.dx       | input_norm )layer
)"};
inline constexpr TableText AV{"AV", "AH", R"(
  lm_head       | wh=2VH xh=2NH lg=2NV @cublas | xh wh ^ | lm_head
  return        |                             | ^ lg     | )causal_lm )lora_model )root
)"};
inline constexpr TableText AW{"AW", "AV", R"(
  labels        | pad=8N+8B lab=8N
  cross entropy | ls=4NV l1=4 l2=4 | lf pad
)"};
inline constexpr TableText AU{"AU", "HB", R"(
  lm_head       | wh=2VH zb=2NH @cublas xh=2NH dWb=2VH | xh wh | lm_head(
  head cast     | f.dy=4NH                    | zb
  head cast 2   | dWh=4VH                     | dWb gl f.y hook:<UNTIED> | )lm_head
  final norm    | NT[f](N,H){x=xlast head=HEAD} |        | model( final_norm
)"};

}  // namespace zplan::tables
