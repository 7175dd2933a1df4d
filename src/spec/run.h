// Everything one simulation needs: a model on a rank of a world, under one strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "spec/ds_config.h"
#include "spec/hardware.h"
#include "spec/model.h"
#include "spec/versions.h"
#include "spec/workload.h"

namespace zplan {

// Bytes of a rank's process beside the model's, where a calibration measured them; absent: zplan's own estimate.
struct ProcessBytes {
  std::optional<Bytes> nccl;     // device: one communicator of this world
  std::optional<Bytes> kernels;  // device: what CUDA loads when it is first used
  std::optional<Bytes> host;     // resident: interpreter, torch, DeepSpeed and NCCL
  friend bool operator==(const ProcessBytes&, const ProcessBytes&) = default;
};

// Whether adapters stay fp32 beside 16-bit weights: PEFT makes them so (autocast_adapter_dtype), and the engine casts a
// model built under zero.Init only before 0.19.2. Anything else it casts as a whole.
inline bool adapters_stay_fp32(const Workload& w, const DsConfig& ds, const DeepSpeedSwitches& sw) {
  return w.adapted() && ds.zero.stage == 3 && w.adapter_autocast && w.zero_init && !sw.engine_casts_module;
}

struct Run {
  Model model;
  Workload workload;
  DsConfig ds;
  Versions versions;
  Gpu gpu;
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
  bool stand_in = false;                     // one process plays the rank; NCCL is not started
  std::int64_t steps = 3;                    // simulated; the steady state is reached at the second or third
  std::string alloc_conf;                    // PYTORCH_CUDA_ALLOC_CONF
  std::optional<Bytes> capacity_limit;       // set_per_process_memory_fraction, in bytes
  std::optional<std::int64_t> cpu_threads;   // per rank
  ProcessBytes process;                      // from a profile

  std::int64_t tokens() const { return ds.train_micro_batch_size_per_gpu * workload.seq_len; }  // N
  friend bool operator==(const Run&, const Run&) = default;
};

// sdpa gets a mask: of a batch that is really padded, or of a model's sliding window that a sequence fills
// (masking_utils.py _ignore_causal_mask_sdpa).
inline bool window_mask(const Run& run) {
  return run.workload.attention == Attention::Sdpa && !run.workload.attention_mask && run.model.sliding_window &&
         run.workload.seq_len >= *run.model.sliding_window;
}
inline bool masked_sdpa(const Run& run) {
  return window_mask(run) || (run.workload.attention_mask && run.workload.attention == Attention::Sdpa);
}

}  // namespace zplan
