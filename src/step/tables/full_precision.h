// fp32 training: casts are no copies, the norm keeps its input, and sdpa has no fused kernel (math path,
// aten/src/ATen/native/transformers/attention.cpp _scaled_dot_product_attention_math).
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// RMSNorm forward: its input stays.
inline constexpr TableText NS{"NS", "", R"(
  pow 2      | sq=4RC
  mean       | ms=4R  | sq
  + eps      | me=4R
  rsqrt      | rs=4R  | me
  x · rs     | n=4RC
  weight · n | y=4RC  | ms
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

// layer forward.
inline constexpr TableText FF{"FF", "", R"(
  input norm | NS[a](N,H)      |             | layer( input_norm
  q_proj     | q=4NA @cublas   |             | self_attn( q_proj
  q_norm     | NS[qn](Nh,D)    |             | q_norm
  k_proj     | k=4NK           |             | k_proj
  k_norm     | NS[kn](Ng,D)    |             | k_norm
  v_proj     | v=4NK           |             | v_proj
  rotary q   | RS[q](A)
  rotary k   | RS[k](K)        | qn.y kn.y
  scale q    | sq=4NA
  mask       | m1=SS m2=SS     | m1
  mask 2     | i1=4 i2=4 am=4SS | i2 i1 m2
  repeat     | kr=4NA vr=4NA
  scale k    | sk=4NA
  scores     | sc=4NhS
  softmax    | pr=4NhS ni=NhS al=Nh fl=4 | fl al ni sc
  · v        | av=4NA          | kr am
  contiguous | o=4NA           | av
  o_proj     | ao=4NH          | ^ q.r k.r v | o_proj )self_attn
  residual   | h1=4NH          | ao
  post norm  | NS[b](N,H)      |             | post_norm
  gate       | gt=4NF          |             | mlp( gate_proj
  silu       | s=4NF           |             | act_fn
  up         | u=4NF           |             | up_proj
  mul        | p=4NF
  down       | d=4NH           |             | down_proj )mlp
  residual 2 | out=4NH         | d           | )layer
)"};

// layer backward, plain linears.
inline constexpr TableText FB{"FB", "", R"(
  down       | dWd=4HF dp=4NF  | p hook:dWd          | layer( mlp( down_proj
  mul        | du=4NF ds=4NF   | dp u s
  up         | dWu=4HF z1=4NH  | du hook:dWu         | up_proj
  silu       | dg=4NF          | ds gt               | act_fn
  gate       | dWg=4HF z2=4NH  | dg b.y              | gate_proj
  sum        | b.dy=4NH        | z1 z2 hook:dWg      | )mlp
  post norm  | NU[b](N,H){x=h1} |                    | post_norm
  o_proj     | dWo=4HA do=4NA  | o hook:dWo          | self_attn( o_proj
  · v        | dvr=4NA dp2=4NhS | do vr
  softmax    | dsc=4NhS st=4NhS | st dp2 pr
  scores     | dkr=4NA dqs=4NA | dsc sk sq
  scale k    | dks=4NA         | dkr
  sum v      | dv=4NK          | dvr
  sum k      | kn.dr=4NK       | dks
  scale q    | qn.dr=4NA       | dqs
  rotary k   | RT[kn](K)
  rotary q   | RT[qn](A)
  reshape v  | dvc=4NK         | dv
  v_proj     | dWv=4HK z1=4NH  | dvc hook:dWv        | v_proj
  k_norm     | NT[kn](Ng,D){x=k} |                   | k_norm
  reshape k  | dkc=4NK         | kn.dx
  k_proj     | dWk=4HK z2=4NH  | dkc                 | k_proj
  sum 2      | a.dy=4NH        | z1 z2 hook:dWk
  q_norm     | NT[qn](Nh,D){x=q} |                   | q_norm
  reshape q  | dqc=4NA         | qn.dx
  q_proj     | dWq=4HA z3=4NH  | dqc a.y z3 hook:dWq | q_proj
  input norm | NU[a](N,H){x=x} |                     | input_norm )layer
)"};

// Around the layers.
inline constexpr TableText PS{"PS", "PF", R"(
  embedding | emb=4NH                                        |               | root( model( embed_tokens
  rope      | pf=4S fr=2SD @cublas em=4SD c1=4SD cos=4SD      | c1            | rotary_emb(
  rope 2    | s1=4SD sin=4SD                                 | s1 pf fr em   | )rotary_emb
  rope 3
)"};
inline constexpr TableText FH{"FH", "HF", R"(
  final norm    | NS[f](N,H)
  model returns |                       | pos   | )model
  lm_head       | lg=4NV @cublas        |       | lm_head
  float
  cross entropy | ls=4NV l1=4 l2=4
)"};
inline constexpr TableText FM{"FM", "FH", R"(
  labels        | pad=8N+8B lab=8N
  cross entropy | ls=4NV l1=4 l2=4      | pad
)"};
inline constexpr TableText FL{"FL", "HB", R"(
  log-softmax | g2=4NV                  | g1 ls
  to bf16
  lm_head     | dWh=4VH @cublas f.dy=4NH | g2 f.y hook:<UNTIED> | lm_head
  final norm  | NT[f](N,H){x=xlast head=HEAD} |     | model( final_norm
)"};
inline constexpr TableText FT{"FT", "", R"(
  embedding | dE=4VH | dout          | embed_tokens(
  sum       | dT=4VH | <head> dE hook:dT
)"};
inline constexpr TableText FU{"FU", "", R"(
  embedding | dE=4VH | dout hook:dE  | embed_tokens(
)"};

}  // namespace zplan::tables
