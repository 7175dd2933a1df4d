// Dropout of the adapters' input (PEFT lora.Linear, nn.Dropout): a mask of a byte an element and the dropped copy, which
// A keeps in place of the input. Each table is an adapted linear's without dropout, its first letter in lower case.
// The rows are those of docs/memory-model.md#event-tables; step/table.h tells how they are read.
#pragma once

#include "step/table.h"

namespace zplan::tables {

// Forward, kept; where the input takes no gradient the mask is not kept.
inline constexpr const char* kDropped = R"(
  drop    | mk=NI xd=2NI |               | dropout
  add     | y=2NO        | ls y0 <fr>
)";
inline constexpr const char* kDroppedLowest = R"(
  drop    | mk=NI xd=2NI | mk            | dropout
)";
inline constexpr TableText DGF{"gF", "GF", kDropped}, DGL{"gL", "GL", kDropped}, DQF{"qF", "QF", kDropped}, DQL{"qL", "QL", kDropped};
inline constexpr TableText DGY{"gY", "GF", kDroppedLowest}, DGZ{"gZ", "GL", kDroppedLowest}, DQY{"qY", "QF", kDroppedLowest}, DQZ{"qZ", "QL", kDroppedLowest};

// Nothing kept.
inline constexpr const char* kDroppedAway = R"(
  drop    | mk=NI xd=2NI | mk            | dropout
  A       | la=2Nr       | ^ xd          | lora_a
)";
inline constexpr TableText DGN{"gN", "GN", kDroppedAway}, DGM{"gM", "GM", kDroppedAway}, DQN{"qN", "QN", kDroppedAway}, DQM{"qM", "QM", kDroppedAway};

// Backward: the dropout's own result takes the base's gradient in place.
inline constexpr const char* kDroppedBack = R"(
  A       | dA=2Ir dxl=2NI | dla xd hook:dA | lora_a
  drop    | <out>=2NI      | dxl mk         | dropout
  base    | dxb=2NI        | <dy> dxb       | base
  sum
)";
inline constexpr const char* kQuantizedBase = R"(
  base    | dxb=2NI        | w <dy> dxb     | base
)";
inline constexpr TableText DGB{"gB", "GB", kDroppedBack}, DQB0{"u0", "QB", kDroppedBack}, DQB{"qB", "u0", kQuantizedBase};
// Added into an existing gradient.
inline constexpr const char* kDroppedAdd = R"(
  A       | dA=2Ir dxl=2NI | dla xd hook:dA | lora_a
  drop    | dx=2NI         | dxl mk dx      | dropout
)";
inline constexpr TableText DGA{"gA", "GA", kDroppedAdd}, DQA{"qA", "QA", kDroppedAdd};
// The input takes no gradient.
inline constexpr const char* kDroppedLast = R"(
  A       | dA=2Ir         | dla xd hook:dA | lora_a
)";
inline constexpr TableText DGI{"gI", "GI", kDroppedLast}, DQI{"qI", "QI", kDroppedLast};

// Inside non-reentrant checkpointing: saved tensors go first.
inline constexpr const char* kDroppedRegion = R"(
  A       | dA=2Ir dxl=2NI | xd dla hook:dA | lora_a
  drop    | <out>=2NI      | mk dxl         | dropout
  base    | dxb=2NI        | <dy> dxb       | base
  sum
)";
inline constexpr TableText DGC{"gC", "GC", kDroppedRegion}, DGR{"gR", "GR", kDroppedRegion};
inline constexpr TableText DQC0{"u1", "QC", kDroppedRegion}, DQC{"qC", "u1", kQuantizedBase};
inline constexpr TableText DQR0{"u2", "QR", kDroppedRegion}, DQR{"qR", "u2", kQuantizedBase};
inline constexpr const char* kDroppedRegionAdd = R"(
  A       | dA=2Ir dxl=2NI | xd dla hook:dA | lora_a
  drop    | dx=2NI         | mk dxl dx      | dropout
)";
inline constexpr TableText DGE{"gE", "GE", kDroppedRegionAdd}, DQE{"qE", "QE", kDroppedRegionAdd};

// The recomputation's end: the layer's own input and the product's are held by nothing but the frames it leaves.
inline constexpr TableText DGT{"gT", "", R"(
  down | d.y0=2NH d.mk=NF d.xd=2NF d.la=2Nr | d.y0 p b.y h1 | down_proj(
)"};
inline constexpr TableText DQT{"qT", "", R"(
  down | d.ab=4FH/64 d.ac=4FH/64 d.w=2FH d.y0=2NH  | d.ac d.ab d.w   | down_proj(
  stop | d.mk=NF d.xd=2NF d.la=2Nr                 | d.y0 p b.y h1
)"};

// ZeRO-3, fp32 adapters: mask and copy of the fp32 input, which is not kept itself; the linears keep the 16-bit one.
inline constexpr TableText DZE{"zE", "ZE", R"(
  drop    | mk=NI xd=4NI | mk   | dropout
  A       | la=4Nr       | ^ xd | lora_a
)"};
inline constexpr TableText DZF{"zF", "ZF", R"(
  drop    | mk=NI xd=4NI |      | dropout
  to bf16 | y=2NO        | ad xc
)"};
inline constexpr TableText DZY{"zY", "zF", R"(
  drop    | mk=NI xd=4NI | mk   | dropout
)"};
inline constexpr const char* kFp32Back = R"(
  A       | dxl=4NI dA=4Ir | dla xd weight:lora_a hook:dA | lora_a
  drop    | dxc=4NI        | dxl mk                       | dropout
)";
inline constexpr const char* kFp32Region = R"(
  A       | dxl=4NI dA=4Ir | xd weight:lora_a dla hook:dA | lora_a
  drop    | dxc=4NI        | mk dxl                       | dropout
)";
inline constexpr TableText DZB{"zB", "ZB", kFp32Back}, DZA{"zA", "ZA", kFp32Back};
inline constexpr TableText DZC{"zC", "ZC", kFp32Region}, DZD{"zD", "ZD", kFp32Region}, DZG{"zG", "ZG", kFp32Region};
inline constexpr TableText DZI{"zI", "ZI", R"(
  A       | dA=4Ir         | dla xd weight:lora_a hook:dA | lora_a(
)"};

// ZeRO-3, adapters in the model's dtype.
inline constexpr TableText DZT{"zT", "ZT", R"(
  A       | dxl=2NI dA=2Ir | dla xd weight:lora_a hook:dA | lora_a
  drop    | <out>=2NI      | dxl mk                       | dropout
)"};
inline constexpr TableText DZU{"zU", "zT", R"(
  drop    | dx=2NI         | dxl mk                       | dropout
)"};
inline constexpr TableText DZV{"zV", "ZV", R"(
  A       | dxl=2NI dA=2Ir | xd weight:lora_a dla hook:dA | lora_a
  drop    | <out>=2NI      | mk dxl                       | dropout
)"};
inline constexpr TableText DZW{"zW", "zV", R"(
  B       | @recompute dla=2Nr dB=2Or | la weight:lora_b dls hook:dB | lora_b
)"};
inline constexpr TableText DZX{"zX", "zV", R"(
  drop    | dx=2NI         | mk dxl                       | dropout
)"};
inline constexpr TableText DZL{"zL", "ZL", R"(
  A       | dA=2Ir         | dla xd weight:lora_a hook:dA | lora_a(
)"};

// The same over a 4-bit base, which does not keep its input either.
inline constexpr TableText DQ1{"q1", "Q1", R"(
  A       | dxl=2NI dA=2Ir | dla xd weight:lora_a hook:dA | lora_a
  drop    | <out>=2NI      | dxl mk                       | dropout
)"};
inline constexpr TableText DQ2{"q2", "q1", R"(
  drop    | dx=2NI         | dxl mk                       | dropout
)"};
inline constexpr TableText DQ3{"q3", "Q3", R"(
  A       | dxl=2NI dA=2Ir | xd weight:lora_a dla hook:dA | lora_a
  drop    | <out>=2NI      | mk dxl                       | dropout
)"};
inline constexpr TableText DQ4{"q4", "q3", R"(
  B       | @recompute dla=2Nr dB=2Or | la weight:lora_b dls hook:dB | lora_b
)"};
inline constexpr TableText DQ5{"q5", "q3", R"(
  drop    | dx=2NI         | mk dxl                       | dropout
)"};

// The recomputation's end in ZeRO-3.
inline constexpr TableText DZ4{"z4", "", R"(
  down | d.y0=2NH d.xc=4NF d.mk=NF d.xd=4NF d.la=4Nr d.lb=4NH | d.lb d.xc d.y0 h1 | down_proj( d.base d.dropout d.lora_a d.lora_b(
)"};
inline constexpr TableText DZ2{"z2", "", R"(
  down | d.y0=2NH d.mk=NF d.xd=2NF d.la=2Nr d.lb=2NH          | d.lb d.y0 h1      | down_proj( d.base d.dropout d.lora_a d.lora_b(
)"};
inline constexpr TableText DQ8{"q8", "", R"(
  down | d.ab=4FH/64 d.ac=4FH/64 d.w=2FH d.y0=2NH    | d.ac d.ab d.w      | down_proj( d.base
  stop | d.mk=NF d.xd=2NF d.la=2Nr d.lb=2NH          | d.lb d.y0 p b.y h1 | d.dropout d.lora_a d.lora_b(
)"};

}  // namespace zplan::tables
