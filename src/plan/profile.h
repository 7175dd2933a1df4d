// What a calibration found, for the runs it is true of: coefficients by name, keyed by GPU and versions. Values
// replace those of the same name; what a profile does not name stays as it was. docs/calibration.md#profile
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/calibrate.h"
#include "spec/run.h"
#include "spec/versions.h"
#include "time/coefficients.h"

namespace zplan {

struct ProfileEntry {
  std::string name, unit;
  double value = 0, standard_error = 0;  // both in `unit`
  std::int64_t measurements = 0;
  friend bool operator==(const ProfileEntry&, const ProfileEntry&) = default;
};

struct Profile {
  std::string gpu;  // Gpu::id
  Version deepspeed, torch, transformers;
  std::vector<ProfileEntry> coefficients;  // of coefficient_table() and process_table()
  friend bool operator==(const Profile&, const Profile&) = default;
};

// A name that profiles may hold besides those of coefficient_table(): bytes of a rank's process.
struct ProcessEntry {
  std::string_view name;
  std::string_view unit;  // "bytes"
  std::string_view determined_by;
};
inline constexpr std::string_view nccl_small = "nccl_up_to_4_ranks", nccl_large = "nccl_over_4_ranks",
                                  loaded_kernels = "loaded_kernels", host_process = "host_process";
std::span<const ProcessEntry> process_table();

// Between which values a coefficient of either table can lie: what a fit may give. Both 0 for an unknown name.
std::pair<double, double> profile_bounds(std::string_view name);

// The coefficients that were fitted, and nothing else.
Profile profile_of(const Run& like, const std::vector<CalibratedCoefficient>& time,
                   const std::vector<CalibratedCoefficient>& process);

// Why the profile says nothing about the run: another GPU, or other minor versions. Empty if it does.
std::string mismatch(const Profile& profile, const Run& run);

// The priors with the profile's values and errors in their places.
TimeCoefficients coefficients(const Profile& profile);
// Bytes of a process for a world of that many ranks.
ProcessBytes process_bytes(const Profile& profile, std::int64_t world_size);

}  // namespace zplan
