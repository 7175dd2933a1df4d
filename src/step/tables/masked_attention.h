// sdpa with a real mask (a padded batch, a sliding window): keys and values are repeated to all heads, the boolean mask
// becomes a 16-bit bias in every layer (integrations/sdpa_attention.py; aten's cuDNN attention).
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// In place of the packing checks: masking_utils.create_causal_mask with a mask that has zeros.
inline constexpr TableText PK{"PK", "", R"(
  mask to bool | am=N
  all of it    | f1=8 f2=8N             | f2
  all of it 2  | f3=1                   | f1 f3
  all of it 3  | f4=8 f5=8N             | f5
  all of it 4  | f6=1                   | f4 f6
  indices      | bi=8B hi=8 t1=8S qi=8S | t1
  indices 2    | t2=8S ki=8S            | t2
  causal       | on=1 le=SS an=SS       | le on
  padding      | x1=8N x2=8N pm=N       | x2 x1
  and          | mask=BSS               | pm an bi hi qi ki am
)"};

// After the packing checks: masking_utils.create_sliding_window_causal_mask.
inline constexpr TableText PW{"PW", "", R"(
  indices   | bi=8B hi=8 t1=8S qi=8S | t1
  indices 2 | t2=8S ki=8S            | t2
  window    | on=1 wd=8S wi=SS       | wd
  window 2  | an=SS                  | wi on
  causal    | le=SS mask=SS          | le an bi hi qi ki
)"};

// In place of a layer's `sdpa`, whatever its linears are. Forward.
inline constexpr TableText KF{"KF", "", R"(
  sdpa   | kR=2NA vR=2NA z0=2 zi=2 mb=2BSS   | zi z0
  sdpa 2 | seed=8 off=8 o=2NA lse=4Nh cw=256 | cw
)"};

// Nothing kept.
inline constexpr TableText KE{"KE", "KF", R"(
  sdpa 2 | seed=8 off=8 o=2NA lse=4Nh cw=256 | cw lse seed off mb kR vR
)"};

// Backward.
inline constexpr TableText KB{"KB", "", R"(
  sdpa   | qn.dr=2NA dkR=2NA dvR=2NA cw=CM | cw do mb kR q.r vR lse o off seed
  sum v  | dv=2NK                          | dvR
  sum k  | kn.dr=2NK                       | dkR
)"};

// Backward inside non-reentrant checkpointing: saved tensors go before the incoming gradient.
inline constexpr TableText KC{"KC", "KB", R"(
  sdpa   | qn.dr=2NA dkR=2NA dvR=2NA cw=CM | cw seed off o lse vR q.r kR mb do
)"};

}  // namespace zplan::tables
