// Liger's RMSNorm, rotary embedding and SwiGLU (linkedin/Liger-Kernel ops/rms_norm.py, rope.py, swiglu.py), patched in
// before construction: each a set of rows over those of a layer's other tables, so that any of them can be on. The norm
// keeps its input and rstd and writes the input's gradient over the incoming one; the others work in place.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Norm forward, and with nothing kept.
inline constexpr TableText NK{"NK", "", R"(
  norm | y=2RC rs=4R
)"};
inline constexpr TableText NX{"NX", "", R"(
  norm | y=2RC rs=4R | rs
)"};

// Backward: one partial weight gradient a multiprocessor. dW is made whether or not the weight trains. Where autograd
// adds the input's gradient to the running one at once, the caller frees dy and then hands dw over.
inline constexpr TableText NV{"NV", "", R"(
  norm | wp=4CP ds=4C dw=2C | ds wp <x> weight:w rs <xin>
)"};
inline constexpr TableText NL{"NL", "", R"(
  norm | wp=4CP ds=4C dw=2C | ds wp <x> weight:w rs <xin> dx:=dy hook:dw
)"};
// The incoming gradient is a transposed view: ops/utils.py ensure_contiguous copies it.
inline constexpr TableText NC{"NC", "", R"(
  norm | cy=2RC wp=4CP ds=4C dw=2C | ds wp dy <x> weight:w rs dx:=cy hook:dw
)"};
// The final norm, whose dx is the running gradient already.
inline constexpr TableText NM{"NM", "", R"(
  norm | wp=4CP ds=4C dw=2C | ds wp <x> rs hook:<head> hook:dw
)"};

// RMSNorm in a layer's forward: h1 and x stay.
inline constexpr TableText VF{"VF", "", R"(
  input norm | NK[a](N,H)   |     | layer( input_norm
  q_norm     | NK[qn](Nh,D) |     | q_norm
  k_norm     | NK[kn](Ng,D) |     | k_norm
  post norm  | NK[b](N,H)   |     | post_norm
  residual 2 | out=2NH      | d ^ | )layer
)"};
// Nothing kept.
inline constexpr TableText VN{"VN", "", R"(
  input norm | NX[a](N,H)   |     | layer( input_norm
  q_norm     | NX[qn](Nh,D) | ^ q | q_norm
  k_norm     | NX[kn](Ng,D) | ^ k | k_norm
  post norm  | NX[b](N,H)   |     | post_norm
)"};
// Backward of the norms of q and k; without Liger's rotary embedding their gradients come in transposed, and the copies
// of the rows after them are not needed.
inline constexpr TableText VQ{"VQ", "", R"(
  k_norm     | NL[kn](Ng,D){x=k} | | k_norm
  q_norm     | NL[qn](Nh,D){x=q} | | q_norm
)"};
inline constexpr TableText VP{"VP", "", R"(
  k_norm     | NC[kn](Ng,D){x=k} | | k_norm
  reshape k  |                   | dkc:=kn.dx
  q_norm     | NC[qn](Nh,D){x=q} | | q_norm
  reshape q  |                   | dqc:=qn.dx
)"};
// Backward of the other two, stages 0-2: added into the running gradient in place.
inline constexpr TableText VB{"VB", "", R"(
  post norm  | NV[b](N,H){x=h1}  | b.dy hook:b.dw | post_norm
  input norm | NV[a](N,H){x=x}   | a.dy hook:a.dw | input_norm )layer
)"};
// Stage 3: the hook of the module stands between the norm and the sum.
inline constexpr TableText V3{"V3", "", R"(
  post norm  | NL[b](N,H){x=h1}  | ^ b.dx         | post_norm
  input norm | NL[a](N,H){x=x}   | ^ a.dx         | input_norm )layer
)"};
// Inside non-reentrant checkpointing: the boundary goes with the region.
inline constexpr TableText VC{"VC", "VB", R"(
  input norm | NV[a](N,H){xin=x} | a.dy hook:a.dw | input_norm )layer
)"};
inline constexpr TableText VD{"VD", "V3", R"(
  input norm | NL[a](N,H){xin=x} | ^ a.dx         | input_norm )layer
)"};
// Reentrant: the first sum is a new tensor, the boundary goes at the end.
inline constexpr TableText VR{"VR", "VB", R"(
  post norm  | NV[b](N,H){x=h1}  |                | post_norm
  first sum  | dh=2NH            | b.dy hook:b.dw
  input norm | NV[a](N,H)        | a.dy hook:a.dw | input_norm )layer
)"};
inline constexpr TableText VS{"VS", "V3", R"(
  post norm  | NL[b](N,H){x=h1}  | ^              | post_norm
  first sum  | dh=2NH            | b.dx
  input norm | NL[a](N,H)        | ^ a.dx         | input_norm )layer
)"};
// The top layer: the gradient that the final norm returns is a view of the one it got, which autograd does not add to
// in place (torch/csrc/autograd/input_buffer.cpp: the storage has two owners).
inline constexpr TableText VT{"VT", "", R"(
  post norm  | NV[b](N,H){x=h1}  |                | post_norm
  top sum    | dh=2NH            | dout b.dy hook:b.dw dout:=dh
)"};
inline constexpr TableText VU{"VU", "", R"(
  post norm  | NL[b](N,H){x=h1}  | ^              | post_norm
  top sum    | dh=2NH            | dout b.dx dout:=dh
)"};

// Rotary embedding, in place on the contiguous tensors behind the transposed views; the gradients likewise, so that
// they need no copies afterwards.
inline constexpr TableText RV{"RV", "", R"(
  rotary q   | | q.r:=qn.y
  rotary k   | | k.r:=kn.y
)"};
inline constexpr TableText RW{"RW", "", R"(
  rotary k   | | kn.dy:=kn.dr
  rotary q   | | qn.dy:=qn.dr
  reshape k  | | dkc:=kn.dx
  reshape q  | | dqc:=qn.dx
)"};
// Eager attention's gradients are not contiguous behind the transposed views: both are copied first.
inline constexpr TableText RX{"RX", "RW", R"(
  rotary k   | qn.dy=2NA kn.dy=2NK | qn.dr kn.dr
  rotary q
)"};

// SwiGLU: silu and the product in one, its gradients written over gate and up.
inline constexpr TableText SF{"SF", "", R"(
  silu
)"};
inline constexpr TableText SE{"SE", "", R"(
  silu
  mul        | p=2NF | gt u
)"};
inline constexpr TableText SB{"SB", "", R"(
  mul        |       | dp du:=u dg:=gt
  silu
)"};

// Around the layers. The final norm keeps its input; Liger's loss makes the gradient of its output in the forward,
// which becomes the running gradient.
inline constexpr TableText VH{"VH", "", R"(
  final norm | NK[f](N,H) |             | final_norm
)"};
inline constexpr TableText VL{"VL", "", R"(
  buffers    | dout=2NH gw=2VH l1=4N mk=N cn=8 cr=8N | cr cn
)"};
inline constexpr TableText VG{"VG", "", R"(
  final norm | NX[f](N,H) | ^ <xlast>   | final_norm
)"};
inline constexpr TableText VK{"VK", "", R"(
  final norm | NM[f](N,H){x=xlast head=HEAD} | | model( final_norm
)"};

}  // namespace zplan::tables
