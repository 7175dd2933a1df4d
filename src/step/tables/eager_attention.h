// Eager attention (modeling_qwen3.py eager_attention_forward): rows in place of a layer's `sdpa`, whatever its linears are.
// LayerTables::attention says what changes in the rows around them.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Forward. Keys and values are repeated to all heads; the scores stand in 16 and 32 bits.
inline constexpr TableText EF{"EF", "", R"(
  sdpa    | kR=2NA vR=2NA sc=2NhS sm=2NhS | sc
  + mask  | ma=2NhS                       | sm
  softmax | f32=4NhS pr=4NhS              | f32
  to bf16 | pb=2NhS                       | ma
  · v     | av=2NA o=2NA                  | av
)"};

// Nothing kept.
inline constexpr TableText EE{"EE", "EF", R"(
  to bf16 | pb=2NhS                       | pr ma
  · v     | av=2NA o=2NA                  | av kR vR
)"};

// Several rows: bmm wants batch and heads as one dimension, which the transposed query is not. It is copied, and the copy
// kept in its place.
inline constexpr TableText EG{"EG", "EF", R"(
  sdpa    | kR=2NA vR=2NA qc=2NA sc=2NhS sm=2NhS | sc
)"};
inline constexpr TableText EH{"EH", "EE", R"(
  sdpa    | kR=2NA vR=2NA qc=2NA sc=2NhS  | qc
  scale   | sm=2NhS                       | sc
)"};

// Backward.
inline constexpr TableText EB{"EB", "", R"(
  sdpa    | dvR=2NA dpb=2NhS  | do vR pb
  to fp32 | dp32=4NhS         | dpb
  softmax | ds32=4NhS st=4NhS | st dp32 pr
  to bf16 | dsb=2NhS          | ds32
  scale   | dsc=2NhS          | dsb
  · k     | dkR=2NA qn.dr=2NA | dsc kR q.r
  sum v   | dv=2NK            | dvR
  sum k   | kn.dr=2NK         | dkR
)"};

// Backward inside non-reentrant checkpointing: saved tensors go before the incoming gradient.
inline constexpr TableText EC{"EC", "EB", R"(
  sdpa    | dvR=2NA dpb=2NhS  | pb vR do
  softmax | ds32=4NhS st=4NhS | st pr dp32
  · k     | dkR=2NA qn.dr=2NA | q.r kR dsc
)"};

// Before either with several rows: the output's gradient likewise.
inline constexpr TableText EJ{"EJ", "", R"(
  heads   | dor=2NA           | do do:=dor
)"};

// fp16: softmax reads and writes it directly (aten/src/ATen/native/SoftMax.cpp, half_to_float). Forward, backward, and
// backward inside a region.
inline constexpr TableText EX{"EX", "", R"(
  softmax | pr=4NhS           |
)"};
inline constexpr TableText EY{"EY", "", R"(
  softmax | dsb=2NhS st=4NhS  | st dp32 pr
  to bf16
)"};
inline constexpr TableText EZ{"EZ", "EY", R"(
  softmax | dsb=2NhS st=4NhS  | st pr dp32
)"};

}  // namespace zplan::tables
