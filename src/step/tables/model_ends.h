// Before the first layer and after the last: embedding, mask checks, rotary tables, head and loss.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Before the first layer: Qwen3Model.forward, masking_utils.find_packed_sequence_indices, Qwen3RotaryEmbedding.
inline constexpr TableText PF{"PF", "", R"(
  embedding     | emb=2NH                           |                | root( lora_model( causal_lm( model( embed_tokens
  positions     | ar=8S pos=8S                      | ar
  packing check | pd=8B pc=8BS+8B df=8N             | pc
  check 2       | ne=N cs=8N cc=8N cb=cub4          | cb cc ne
  check 3       | eq=B al=1                         | eq al pd df cs
  rope          | pf=4S fr=2SD @cublas em=4SD c1=4SD c2=4SD | c1 | rotary_emb(
  rope 2        | s1=4SD s2=4SD                     | s1
  rope 3        | cos=2SD sin=2SD                   | pf fr em c2 s2 | )rotary_emb
)"};

// Under zero.Init the inverse frequencies are made in the model's dtype and cast to fp32 in every forward.
inline constexpr TableText P3{"P3", "PF", R"(
  rope   | iv=2D pf=4S fr=2SD @cublas em=4SD c1=4SD c2=4SD | c1                | rotary_emb(
  rope 3 | cos=2SD sin=2SD                         | iv pf fr em c2 s2 | )rotary_emb
)"};

// With several rows the cumulative sum needs no scratch.
inline constexpr TableText PB{"PB", "", R"(
  check 2       | ne=N cs=8N cc=8N                  | cc ne
)"};

// Eager attention makes its mask between the checks and the rotary tables.
inline constexpr TableText PE{"PE", "", R"(
  indices       | bi=8B hi=8 t1=8S qi=8S | t1
  indices 2     | t2=8S ki=8S            | t2
  causal        | le=SS                  | bi hi qi ki
  mask          | z0=2 z1=2 mask=2BSS    | z1 z0 le
)"};

// The same where the model has a sliding window, however short the sequence.
inline constexpr TableText PX{"PX", "", R"(
  indices       | bi=8B hi=8 t1=8S qi=8S | t1
  indices 2     | t2=8S ki=8S            | t2
  window        | on=1 wd=8S wi=SS       | wd
  window 2      | an=SS                  | wi on
  causal        | le=SS cm=SS            | le an bi hi qi ki
  mask          | z0=2 z1=2 mask=2BSS    | z1 z0 cm
)"};

// After the last layer, loss of Hugging Face (loss_utils.ForCausalLMLoss).
inline constexpr TableText HF{"HF", "", R"(
  final norm    | NF[f](N,H)       | ^ <xlast>     | final_norm
  model returns |                  | <args> | )model
  lm_head       | lg=2NV @cublas   |               | lm_head
  float         | lf=4NV
  labels        | lab=8N+8B
  cross entropy | ls=4NV l1=4 l2=4 | lf
  return        |                  | ^ lg          | )causal_lm )lora_model )root
)"};

// With several rows in the micro-batch the shifted labels are made contiguous: the copy is kept instead.
inline constexpr TableText HM{"HM", "HF", R"(
  labels        | pad=8N+8B lab=8N
  cross entropy | ls=4NV l1=4 l2=4 | lf pad
)"};

// An evaluation's end (no_grad): nothing is kept; the logits stay until the caller drops the output.
inline constexpr TableText VE{"VE", "HF", R"(
  final norm    | NE[f](N,H)       | ^ <xlast>            | final_norm
  model returns |                  | <args> sin cos       | )model
  cross entropy | ls=4NV l1=4 l2=4 | l2 ls lf lab f.y l1
)"};

// Backward of the loss and head.
inline constexpr TableText HB{"HB", "", R"(
  engine      | i1=4 i2=4 i3=4 t1=4 t2=4 | t1
  nll         | g1=4NV                   | t2 lab l2 | root( lora_model( causal_lm(
  log-softmax | g2=4NV                   | g1 ls
  to bf16     | gl=2NV                   | g2
  lm_head     | dWh=2VH @cublas f.dy=2NH | gl f.y hook:<UNTIED> | lm_head
  final norm  | NB[f](N,H){head=HEAD}     |           | model( final_norm
)"};

// Where no loss scale is applied (no ZeRO in bf16 or fp32, BF16_Optimizer): ENG:backward only divides by the
// accumulation steps.
inline constexpr TableText UB{"UB", "", R"(
  engine | i1=4 i3=4 t2=4
)"};
inline constexpr TableText UR{"UR", "", R"(
  return | | i1 <held> <loss>
)"};

// Before 0.17 the engine divides the loss only with accumulation, before the optimizer's backward, which drops the
// scaled loss when it returns.
inline constexpr TableText OP{"OP", "", R"(
  divide | i1=4
)"};
inline constexpr TableText OB{"OB", "", R"(
  engine | i2=4 i3=4 t1=4 t2=4 | t1
)"};
inline constexpr TableText OA{"OA", "", R"(
  engine | i2=4 i3=4 t2=4
)"};
// The same where no loss scale is applied.
inline constexpr TableText UD{"UD", "", R"(
  engine | i3=4 t2=4
)"};
inline constexpr TableText UO{"UO", "", R"(
  engine | i3=4
)"};
inline constexpr TableText OE{"OE", "", R"(
  graph done | | i3 i2
)"};
inline constexpr TableText OR{"OR", "", R"(
  return | | i1 <held> <loss>
)"};
inline constexpr TableText OQ{"OQ", "", R"(
  return | | <held> <loss>
)"};

// Frozen head: no weight gradient, and its input was not kept.
inline constexpr TableText HZ{"HZ", "HB", R"(
  lm_head     | f.dy=2NH @cublas         | gl        | lm_head
)"};

// ZeRO-3 linear: the input gradient first.
inline constexpr TableText H3{"H3", "HB", R"(
  lm_head     | f.dy=2NH @cublas dWh=2VH | gl f.y    | lm_head
)"};
// ZeRO-3 with torch's own linear: see LT.
inline constexpr TableText HT{"HT", "HB", R"(
  lm_head     | dWh=2VH @cublas f.dy=2NH | gl weight:lm_head f.y hook:<UNTIED> | lm_head
)"};
inline constexpr TableText Z3{"Z3", "HB", R"(
  lm_head     | f.dy=2NH @cublas         | gl f.y    | lm_head
)"};

// Liger's fused loss over any of these: the gradients were made in the forward; they are scaled in place.
inline constexpr TableText HK{"HK", "", R"(
  nll         |                       |         | root( lora_model( causal_lm(
  log-softmax | one=4 eq=1 all=1      | all eq one t2
  to bf16
  lm_head
  final norm  | NB[f](N,H){dy=gi head=HEAD} |    | model( final_norm
)"};

// End of backward, tied weights, ZeRO 0-2: three [V,H] tensors for a moment.
inline constexpr TableText HE{"HE", "", R"(
  embedding | dE=2VH | dout          | embed_tokens(
  sum       | dT=2VH | <head> dE hook:dT
)"};

// Tied, ZeRO-3: summed in place.
inline constexpr TableText E3{"E3", "", R"(
  embedding | dE=2VH | dout dE hook:head | embed_tokens(
)"};

// embedding_dense_backward sorts more than 3,072 indices (aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu):
// m segments at most, p partial sums. The gradient is dE, as before.
inline constexpr TableText ES{"ES", "", R"(
  sort      | si=8N oi=8N ar=8N cb=srt | cb ar          | embed_tokens(
  embedding | dE=2VH
  segments  | so=8N ns=8 du=8N cb=cub4 | cb du
  partials  | ps=8m po=8m cb=cub4      | cb
  sums      | np=8 pp=8p gs=4pH        | gs pp np po ps ns so oi si
)"};

// Untied.
inline constexpr TableText EU{"EU", "", R"(
  embedding | dE=2VH | dout hook:dE | embed_tokens(
)"};

// The gradient of the loss goes when autograd is done, the scaled losses and the loss when their holders return.
inline constexpr TableText BE{"BE", "", R"(
  graph done | | i3
)"};
inline constexpr TableText BR{"BR", "", R"(
  return | | i2 i1 <held> <loss>
)"};

// Liger's fused linear cross entropy: one chunk of logits at a time; the gradients are made in the forward.
inline constexpr TableText HL{"HL", "", R"(
  final norm    | NF[f](N,H)                          | ^ <xlast>   | final_norm
  model returns |                                     | <args> | )model
  labels        | lab=8N+8B                           |             | lm_head_weight(
  buffers       | gi=2NH gw=2VH l1=4N mk=N cn=8 cr=8N | cr cn
  chunk         | ck=2cV @cublas                      | ck
  sum           | loss=4                              | mk l1 lab f.y
  return        |                                     | ^           | )causal_lm )lora_model )root
)"};
// With several rows, as in HM: `labels` is the padded tensor until the loss returns.
inline constexpr TableText HJ{"HJ", "HL", R"(
  labels        | pad=8N+8B lab=8N                    |               | lm_head_weight(
  sum           | loss=4                              | mk l1 pad lab f.y
)"};

}  // namespace zplan::tables
