#include "step/tables/all.h"

#include <algorithm>
#include <string>

#include "spec/run.h"
#include "step/tables/autocast.h"
#include "step/tables/checkpointing.h"
#include "step/tables/dense_layer.h"
#include "step/tables/eager_attention.h"
#include "step/tables/experts.h"
#include "step/tables/frozen.h"
#include "step/tables/full_precision.h"
#include "step/tables/liger.h"
#include "step/tables/lora.h"
#include "step/tables/lora_checkpointing.h"
#include "step/tables/lora_dropout.h"
#include "step/tables/lora_zero3.h"
#include "step/tables/masked_attention.h"
#include "step/tables/model_ends.h"
#include "step/tables/norm_rotary.h"
#include "units/units.h"

namespace zplan {

const TableBook& table_book() {
  using namespace tables;
  static const TableBook book({NF, NZ, NE, NB, N0, NQ, NY, RF, RB, LF, LB, L3, LT, LE, LN, LC, LR, R3, EF, EE, EG, EH, EB, EC, EJ, EX, EY, EZ,
                               GF, GB, GD, GA, QF, QL, QB, QA, GI, QI, GL, LG, LH, LI,
                               GN, GM, QN, QM, GC, GR, GE, QC, QR, QE, GT, QT, LK, LX, ZE, ZF, ZH, ZB, ZA, ZC, ZD, ZG, ZJ, ZI, ZS, ZT, ZU, ZV, ZW, ZX,
                               ZK, ZL, Q1, Q2, Q3, Q4, Q5, Z4, Z2, Q8, LM, LO, LZ, LY, ME, MR, MF, IP, IQ, MB, MW,
                               PF, P3, PB, PE, PX, PK, PW, KF, KE, KB, KC, HF, VE, HM, HB, HZ, H3, HT, Z3, HK, UB, UR, OP, OB, OA, UD, UO, OE, OR, OQ, HE, E3, ES, EU, BE, BR, HL, HJ,
                               NK, NX, NV, NL, NC, NM, VF, VN, VQ, VP, VB, V3, VC, VD, VR, VS, VT, VU, RV, RW, RX, SF, SE, SB, VH, VL, VG, VK,
                               NG, NW, LW, LV, NS, NI, NT, NU, NN, NJ, NO, RS, RT, PS, XF, XG, XE, XH, XB, XI, XC, XJ, YF, YB, YC, NP, NR, AF, AB, AH, AM, AL, AT, AX, AY, AV, AW, AU,
                               DGF, DGL, DQF, DQL, DGY, DGZ, DQY, DQZ, DGN, DGM, DQN, DQM, DGB, DQB0, DQB, DGA, DQA, DGI, DQI, DGC, DGR, DQC0, DQC,
                               DQR0, DQR, DGE, DQE, DGT, DQT, DZE, DZF, DZY, DZB, DZA, DZC, DZD, DZG, DZI, DZT, DZU, DZV, DZW, DZX,
                               DZL, DZ4, DZ2, DQ1, DQ2, DQ3, DQ4, DQ5, DQ8});
  return book;
}

Sizes sizes_of(const Run& run) {
  const Model& m = run.model;
  const auto n = run.tokens();
  Sizes s;
  s.sm_count = run.gpu.sm_count;
  s.set("H", m.hidden);
  s.set("F", m.intermediate);
  s.set("V", m.vocab);
  s.set("h", m.heads);
  s.set("g", m.kv_heads);
  s.set("D", m.head_dim);
  s.set("S", run.workload.seq_len);
  s.set("B", run.ds.train_micro_batch_size_per_gpu);
  s.set("N", n);
  s.set("A", m.attention_width());
  s.set("K", m.kv_width());
  s.set("r", run.workload.lora_rank);
  s.set("P", run.gpu.sm_count);  // multiprocessors
  if (m.experts) {
    s.set("E", m.experts->count);
    s.set("k", m.experts->per_token);
    s.set("M", m.experts->intermediate);
  }
  // cuDNN attention backward: fp32 dq, dk and dv expanded to all heads, row sums.
  // Without grouped heads dk and dv are what the caller gets.
  const auto grouped = m.heads > m.kv_heads;
  s.set("CW", (grouped ? 8 : 4) * n * m.attention_width() + 4 * n * m.heads + 256);
  s.set("CM", 4 * n * m.attention_width() + 4 * n * m.heads + 256);  // heads already repeated
  s.set("gb", 512 * run.gpu.sm_count);  // grouped matmul
  s.set("cub2", 1023);  // scans of cub, which grow slowly with the size (small)
  s.set("cub4", 1279);
  // Sorts of tokens, and of tokens by expert, go by all bits of their keys.
  const auto& capability = run.gpu.compute_capability;
  s.sort_tile = radix_sort_tile(capability.empty() ? 9 : std::stoi(capability));
  s.set("srt", radix_sort_storage(n, 64, s.sort_tile));
  if (m.experts) {  // up to 4,096 keys torch sorts in place (aten/src/ATen/native/cuda/Sort.cpp, should_use_small_sort)
    const auto visits = n * m.experts->per_token;
    s.set("srk", visits > 4096 ? radix_sort_storage(visits, 64, s.sort_tile) : 0);
  }
  // embedding_dense_backward: segments and partial sums.
  const auto segments = std::min(n, m.vocab);
  s.set("m", segments);
  s.set("p", n / 10 + segments);
  // Rows in one chunk of Liger's fused loss (ops/fused_linear_cross_entropy.py).
  const auto rows = ceil_div(n, ceil_div(m.vocab, m.hidden));
  std::int64_t chunk = 1;
  while (chunk < rows) chunk *= 2;
  s.set("c", std::min(n, chunk));
  return s;
}

}  // namespace zplan
