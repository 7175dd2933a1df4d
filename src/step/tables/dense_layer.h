// One dense decoder layer, full fine-tuning, sdpa: modeling_qwen3.py Qwen3DecoderLayer.forward and its autograd graph.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Forward. On Hopper torch picks the cuDNN kernel (_scaled_dot_product_cudnn_attention) for 16-bit causal sdpa.
inline constexpr TableText LF{"LF", "", R"(
  input norm | NF[a](N,H)                        |                | layer( input_norm
  q_proj     | q=2NA @cublas                     |                | self_attn( q_proj
  q_norm     | NF[qn](Nh,D)                      | ^ q            | q_norm
  k_proj     | k=2NK                             |                | k_proj
  k_norm     | NF[kn](Ng,D)                      | ^ k            | k_norm
  v_proj     | v=2NK                             |                | v_proj
  rotary q   | RF[q](A)
  rotary k   | RF[k](K)                          | qn.y kn.y
  sdpa       | seed=8 off=8 o=2NA lse=4Nh cw=256 | cw
  o_proj     | ao=2NH                            |                | o_proj )self_attn
  residual   | h1=2NH                            | ao
  post norm  | NF[b](N,H)                        |                | post_norm
  gate       | gt=2NF                            |                | mlp( gate_proj
  silu       | s=2NF                             |                | act_fn
  up         | u=2NF                             |                | up_proj
  mul        | p=2NF
  down       | d=2NH                             |                | down_proj )mlp
  residual 2 | out=2NH                           | d h1 ^ <xprev> | )layer
)"};

// Backward, ZeRO 0, 1, 2; dout is the running gradient: one buffer carries it from the last layer to the embedding.
inline constexpr TableText LB{"LB", "", R"(
  down       | dWd=2HF @cublas dp=2NF           | p hook:dWd                     | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                    | dp u s
  up         | dWu=2HF z1=2NH                   | du hook:dWu                    | up_proj
  silu       | dg=2NF                           | ds gt                          | act_fn
  gate       | dWg=2HF z2=2NH                   | dg b.y                         | gate_proj
  sum        | b.dy=2NH                         | z1 z2 hook:dWg                 | )mlp
  post norm  | NB[b](N,H)                       | ^ b.dx                         | post_norm
  o_proj     | dWo=2HA do=2NA                   | hook:dWo                       | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW | cw do k.r q.r v lse o off seed
  rotary k   | RB[kn](K)
  rotary q   | RB[qn](A)
  v_proj     | dWv=2HK z1=2NH                   | dv hook:dWv                    | v_proj
  k_norm     | NB[kn](Ng,D)                     |                                | k_norm
  reshape k  | dkc=2NK                          | kn.dx
  k_proj     | dWk=2HK z2=2NH                   | dkc                            | k_proj
  sum 2      | a.dy=2NH                         | z1 z2 hook:dWk
  q_norm     | NB[qn](Nh,D)                     |                                | q_norm
  reshape q  | dqc=2NA                          | qn.dx
  q_proj     | dWq=2HA z3=2NH                   | dqc a.y z3 hook:dWq            | q_proj
  input norm | NB[a](N,H)                       | ^ a.dx                         | input_norm )layer
)"};

// Backward, ZeRO-3 linear (deepspeed zero/linear.py makes the input gradient first; sums are in place).
inline constexpr TableText L3{"L3", "LB", R"(
  down   | dp=2NF @cublas dWd=2HF | p hook:dWd            | layer( mlp( down_proj
  up     | b.dy=2NH dWu=2HF | du hook:dWu           | up_proj
  gate   | z2=2NH dWg=2HF   | dg b.y hook:dWg ^ z2  | gate_proj )mlp
  sum
  o_proj | do=2NA dWo=2HA   | hook:dWo              | self_attn( o_proj
  v_proj | a.dy=2NH dWv=2HK | dv hook:dWv           | v_proj
  k_proj | z2=2NH dWk=2HK   | dkc hook:dWk ^ z2     | k_proj
  sum 2
  q_proj | z3=2NH dWq=2HA   | dqc a.y hook:dWq ^ z3 | q_proj
)"};

// Backward under ZeRO-3 with torch's own linear (memory_efficient_linear: false). Its node saves the transposed view of
// the weight, which keeps the gathered block of the forward alive whatever is released, and drops it with its input.
// Behind each module stands DeepSpeed's post-backward node, so that a weight's hook runs before the inputs' sum.
inline constexpr TableText LT{"LT", "LB", R"(
  down   | dWd=2HF @cublas dp=2NF | weight:down_proj p hook:dWd          | layer( mlp( down_proj
  up     | dWu=2HF z1=2NH         | du weight:up_proj hook:dWu           | up_proj
  gate   | dWg=2HF z2=2NH         | dg weight:gate_proj b.y hook:dWg     | gate_proj
  sum    | b.dy=2NH               | z1 z2                                | )mlp
  o_proj | dWo=2HA do=2NA         | weight:o_proj hook:dWo               | self_attn( o_proj
  v_proj | dWv=2HK z1=2NH         | dv weight:v_proj hook:dWv            | v_proj
  k_proj | dWk=2HK z2=2NH         | dkc weight:k_proj hook:dWk           | k_proj
  sum 2  | a.dy=2NH               | z1 z2
  q_proj | dWq=2HA z3=2NH         | dqc weight:q_proj a.y hook:dWq ^ z3  | q_proj
)"};

}  // namespace zplan::tables
