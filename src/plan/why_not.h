// Why the other families lose or fail, what each unusual setting of a plan is for, and what would have to change where
// nothing fits. docs/memory-model.md#why-not
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/rank.h"
#include "plan/search.h"

namespace zplan {

// The cheapest change that would make something fit, and what it costs.
struct Change {
  std::string text;               // "--allow liger: fused loss"
  Bytes need;                     // what the device must then offer to the allocator, as far as closed forms say
  std::optional<double> slower;   // step time over the plan's; absent: not comparable
  bool empty() const { return text.empty(); }
};

struct Rejection {
  std::string family;             // "ZeRO-2, optimizer on the CPU"
  Strategy strategy;              // its best, or the one that is least too large
  bool fits = false;              // it only is slower
  std::string limiter;            // fits: what its time goes into
  double slower = 0;              // fits: step time over the plan's
  std::string moment;             // does not fit: where its peak is, "backward of the loss"
  std::string component;          // ... and what is most of it then, "optimizer"
  Bytes component_bytes;
  Bytes need, over;               // allocated peak at least, and how far above what the device offers
  Bytes host_over;                // host memory of a node is short by so much
  std::string cannot_run;         // DeepSpeed refuses it
  std::int64_t rank = 0;
  Change change;
};

// One line for each stage and offload that is not the plan's own.
std::vector<Rejection> why_not(const Question& question, const SearchResult& result, const Plan* plan);

// What each setting that differs from DeepSpeed's default is for: the same plan without it.
struct SettingReason {
  std::string setting;            // "expandable segments"
  bool needed = false;            // without it the plan does not fit by its margin
  Bytes reserved;                 // without it and without a limit
  Bytes allocated;
  double time_ratio = 1;          // step time without it over with it
};
std::vector<SettingReason> setting_reasons(const Question& question, const SearchResult& result, const Plan& plan);

// What would make a plan possible where none fits, the cheapest first: fused loss, 8-bit states, adapters, host memory,
// more GPUs.
std::vector<Change> what_would_fit(const Question& question, const SearchResult& result);

}  // namespace zplan
