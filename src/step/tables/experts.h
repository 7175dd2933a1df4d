// Sparse feed-forward of a mixture of experts (grouped_mm, transformers 5). As a leaf of ZeRO-3 the block is one module,
// whose gradients are handed over when its backward is done; else router and experts are modules of their own, and
// LayerTables moves the hooks to where each gradient is there.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// layer forward, nothing kept.
inline constexpr TableText ME{"ME", "", R"(
  router     | lg=2NE                            |  | mlp( router(
  softmax    | l32=4NE sf=4NE                    | l32
  top k      | tv=4Nk ti=8Nk
  renorm     | ts=4N tc=4Nk                      | tc ts
  to bf16    | tw=2Nk                            | tv sf | )router
  sort       | sv=8Nk pm=8Nk s1=8Nk cb=srk       | cb s1 | experts(
  gather     | tx=8Nk xg=2NkH                    | tx
  counts     | wg=2Nk ei=4Nk hc=4E cs=4E ct=cub2 | ct
  gate_up    | ge=Nk gu=4NkM ga=60E gb=gb        | gb ga
  mask       | gm=4NkM                           | gu
  act        | sl=2NkM mu=2NkM                   | sl gm
  down       | dn=2NkH ga=60E gb=gb              | gb ga mu
  mask 2     | dm=2NkH                           | dn
  weight     | we=2NkH iv=8Nk ar=8Nk             | ar
  reorder    | ro=2NkH                           | we
  sum        | y=2NH                             | sv pm xg wg ei hc cs ge dm ro iv | )experts
  block      |                                   | lg tw ti ^ b.y                   | )mlp
  residual 2 | out=2NH                           | y h1 ^ <xprev>                                | )layer
)"};

// recompute, non-reentrant.
inline constexpr TableText MR{"MR", "", R"(
  router    | lg=2NE l32=4NE sf=4NE             | l32 | mlp( router(
  top k     | tv=4Nk ti=8Nk ts=4N tc=4Nk tw=2Nk | tv  | )router
  sort      | sv=8Nk pm=8Nk s1=8Nk cb=srk       | cb s1 | experts(
  gather    | tx=8Nk xg=2NkH
  counts    | wg=2Nk ei=4Nk hc=4E cs=4E ct=cub2 | ct
  gate_up   | ge=Nk gu=4NkM ga=60E gb=gb        | gb ga
  mask      | gm=4NkM                           | gu
  act       | sl=2NkM mu=2NkM
  down      | dn=2NkH ga=60E gb=gb              | gb ga
  mask 2    | dm=2NkH                           | dn
  weight    | we=2NkH iv=8Nk ar=8Nk             | ar
  stop      |                                   | sv ei hc we lg tw h1
)"};

// backward of a gather: scatter into a zeroed tensor g of Z bytes and R rows, whose numbers are sorted first.
inline constexpr TableText IP{"IP", "", R"(
  zero | g=Z p1=8Nk p2=8Nk            | p1
  put  | p3=8Nk p4=8Nk p5=8Nk cb=sort(Nk,R) | cb p5 p4 p3 p2 <idx> <src>
)"};

// backward; `dro` = 2NkH (dout spread over k) was made just before the recompute.
inline constexpr TableText MB{"MB", "", R"(
  spread    | dro=2NkH @recompute              |    | layer( mlp( experts(
  reorder   | IP[we](2NkH,Nk){idx=iv src=dro}
  weight    | dwp=2NkH ddm=2NkH             | dm wg
  weight 2  | dwg=2Nk                       | dwp we.g
  mask 2    | ddn=2NkH                      | ddm
  down      | dW2=2EHM ga=60E gb=gb         | gb ga
  down 2    | dmu=2NkM ga=60E gb=gb         | gb ga mu ddn
  act       | dsl=2NkM dup=2NkM             | sl dmu
  silu      | dgt=2NkM                      | gm dup
  cat       | dgm=4NkM                      | dgt dsl
  mask      | dgu=4NkM                      | dgm
  gate_up   | dW1=4EHM ga=60E gb=gb         | gb ga
  gate_up 2 | dxg=2NkH ga=60E gb=gb         | gb ga xg cs dgu
  mask 3    | dx2=2NkH                      | ge dxg
  weights   | IP[wt](2Nk,Nk){idx=pm src=dwg}
  gather    | IP[b.dy](2NH,N){idx=tx src=dx2} |      | )experts
  to fp32   | dt=4Nk                        | wt.g | router(
  renorm    | r1=4Nk r2=4Nk r3=4Nk r4=4Nk   | r3 r2 r1
  renorm 2  | r5=4Nk                        | tc ts
  renorm 3  | r6=4N                         | r4 dt r6
  top k     | dsf=4NE                       | ti r5
  softmax   | dl=4NE dlt=4NE                | dlt sf dsf
  to bf16   | dlg=2NE                       | dl
  router    | dyr=2NH dWr=2EH                   | b.y weight:router dlg dyr hook:dW1 hook:dW2 hook:dWr | )router )mlp
  post norm | NQ[b](N,H){dy=b.dy.g}             | ^ b.dx | post_norm
)"};

// Layer forward, kept (no checkpointing).
inline constexpr TableText MF{"MF", "MR", R"(
  weight     | we=2NkH iv=8Nk ar=8Nk | ar
  stop
  reorder    | ro=2NkH | we
  sum        | y=2NH   | sv ei hc ro         | )experts
  block      |         | lg tw ^             | )mlp
  residual 2 | out=2NH | y h1 ^ <xprev>      | )layer
)"};

// Backward of a gather, no checkpointing.
inline constexpr TableText IQ{"IQ", "IP", R"(
  put  | p3=8Nk p4=8Nk p5=8Nk cb=sort(Nk,R) | cb p5 p4 p3 p2 <src> <idx>
)"};

// Layer backward, no checkpointing: incoming gradients go before saved tensors.
inline constexpr TableText MW{"MW", "", R"(
  spread    | dro=2NkH                        |                         | layer( mlp( experts(
  reorder   | IQ[we](2NkH,Nk){idx=iv src=dro}
  weight    | dwp=2NkH ddm=2NkH
  weight 2  | dwg=2Nk                         | dwp we.g wg dm
  mask 2    | ddn=2NkH                        | ddm
  down      | dW2=2EHM ga=60E gb=gb           | gb ga
  down 2    | dmu=2NkM ga=60E gb=gb           | gb ga ddn weight:experts_down mu
  act       | dsl=2NkM dup=2NkM               | dmu sl
  silu      | dgt=2NkM                        | dup gm
  cat       | dgm=4NkM                        | dgt dsl
  mask      | dgu=4NkM                        | dgm
  gate_up   | dW1=4EHM ga=60E gb=gb           | gb ga
  gate_up 2 | dxg=2NkH ga=60E gb=gb           | gb ga dgu weight:experts_gate_up cs xg
  mask 3    | dx2=2NkH                        | dxg ge
  weights   | IQ[wt](2Nk,Nk){idx=pm src=dwg}
  gather    | IQ[b.dy](2NH,N){idx=tx src=dx2}   |                         | )experts
  to fp32   | dt=4Nk                          | wt.g                    | router(
  renorm    | r1=4Nk r2=4Nk r3=4Nk r4=4Nk     | r3 r2 r1
  renorm 2  | r5=4Nk r6=4N                    | r4 dt ts tc r6
  top k     | dsf=4NE                         | r5 ti
  softmax   | dl=4NE dlt=4NE                  | dlt dsf sf
  to bf16   | dlg=2NE                         | dl
  router    | dyr=2NH dWr=2EH                 | dlg b.y dyr hook:dW1 hook:dW2 hook:dWr | )router )mlp
  post norm | NB[b](N,H){dy=b.dy.g}           | ^ b.dx                  | post_norm
)"};

}  // namespace zplan::tables
