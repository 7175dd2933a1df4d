// LoRA and QLoRA under activation checkpointing, bf16 adapters (ZeRO 0-2).
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Adapted linear, forward with nothing kept.
inline constexpr TableText GN{"GN", "GF", R"(
  B     | lb=2NO | ^ la  | lora_b
  add   | y=2NO  | ls y0 <fr>
)"};
inline constexpr TableText GM{"GM", "GN", R"(
  base  | y0=2NO @cublaslt |  | base
)"};
inline constexpr TableText QN{"QN", "GN", R"(
  base | ab=4IO/64 ac=4IO/64 w=2IO y0=2NO | ac ab w | base
)"};
inline constexpr TableText QM{"QM", "GN", R"(
  base | ab=4IO/64 ac=4IO/64 w=2IO y0=2NO @cublaslt | ac ab w | base
)"};

// Backward in non-reentrant checkpointing: saved tensors go before the incoming gradient.
inline constexpr TableText GC{"GC", "GB", R"(
  B     | dB=2Or dla=2Nr | la dls hook:dB    | lora_b
  A     | dA=2Ir dxl=2NI | <sav> dla hook:dA | lora_a
)"};
inline constexpr TableText GR{"GR", "GC", R"(
  B     | @recompute dB=2Or dla=2Nr | la dls hook:dB | lora_b
)"};
inline constexpr TableText GE{"GE", "GC", R"(
  A    | dA=2Ir dxl=2NI | <sav> dla dxl hook:dA | lora_a
  base | dxb=2NI        | <dy> dxb              | base
  sum
)"};
inline constexpr TableText QC{"QC", "GC", R"(
  deq  | am=4IO/64 w=2IO | am
  base | dxb=2NI         | w <dy> | base
)"};
inline constexpr TableText QR{"QR", "GR", R"(
  deq  | am=4IO/64 w=2IO | am
  base | dxb=2NI         | w <dy> | base
)"};
inline constexpr TableText QE{"QE", "GE", R"(
  deq  | am=4IO/64 w=2IO | am
  base | dxb=2NI         | w <dy> dxb | base
)"};

// End of the recomputation: the adapter's first product of down is the last tensor that backward needs.
inline constexpr TableText GT{"GT", "", R"(
  down | d.y0=2NH d.la=2Nr | d.y0 h1 | down_proj(
)"};
inline constexpr TableText QT{"QT", "", R"(
  down | d.ab=4FH/64 d.ac=4FH/64 d.w=2FH d.y0=2NH | d.ac d.ab d.w | down_proj(
  stop | d.la=2Nr                                 | d.y0 h1
)"};

// layer backward, non-reentrant.
inline constexpr TableText LK{"LK", "LH", R"(
  down       | GR[d](F,H){sav=p out=dp}         |                                  | layer( mlp( down_proj
  mul        | du=2NF ds=2NF                    | s u.y dp
  up         | GC[u](H,F){dy=du out=b.dy}       |                                  | up_proj
  silu       | dg=2NF                           | gt.y ds                          | act_fn
  gate       | GE[gt](H,F){sav=b.y dy=dg}       |                                  | gate_proj )mlp
  post norm  | NY[b](N,H)                       | ^ b.dx                           | post_norm
  o_proj     | GC[ao](A,H){out=do}              |                                  | self_attn( o_proj
  sdpa       | qn.dr=2NA kn.dr=2NK dv=2NK cw=CW | cw seed off o lse v.y q.r k.r do
  v_proj     | GC[v](H,K){dy=dv out=a.dy}       |                                  | v_proj
  k_norm     | NY[kn](Ng,D)                     |                                  | k_norm
  k_proj     | GE[k](H,K){dy=dkc}               |                                  | k_proj
  q_norm     | NY[qn](Nh,D)                     |                                  | q_norm
  q_proj     | GE[q](H,A){sav=a.y dy=dqc}       |                                  | q_proj
  input norm | NY[a](N,H){xin=x}                | ^ a.dx                           | input_norm )layer
)"};

// layer backward, reentrant: as LR.
inline constexpr TableText LX{"LX", "LH", R"(
  post norm  | N0[b](N,H) dh=2NH | ^ b.dx                  | post_norm
  input norm | N0[a](N,H)        | ^ a.dx                  | input_norm )layer
  end        |                   | out dout x dout:=dh
)"};

}  // namespace zplan::tables
