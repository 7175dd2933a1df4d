#include "plan/profile.h"

#include <array>
#include <cmath>

namespace zplan {
namespace {

constexpr auto process_entries = std::to_array<ProcessEntry>({
    {nccl_small, "bytes", "a run of 2 to 4 ranks over NCCL, with device_used_bytes"},
    {nccl_large, "bytes", "a run of 5 ranks or more over NCCL, with device_used_bytes"},
    {loaded_kernels, "bytes", "a run of one rank, with device_used_bytes"},
    {host_process, "bytes", "a run over NCCL without offload"},
});

bool same_minor(const Version& a, const Version& b) { return a.major == b.major && a.minor == b.minor; }

const ProfileEntry* find(const Profile& p, std::string_view name) {
  for (const auto& e : p.coefficients) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

std::optional<Bytes> bytes(const Profile& p, std::string_view name) {
  const ProfileEntry* e = find(p, name);
  if (e == nullptr) return std::nullopt;
  return Bytes{std::llround(e->value)};
}

}  // namespace

std::span<const ProcessEntry> process_table() { return process_entries; }

std::pair<double, double> profile_bounds(std::string_view name) {
  for (const auto& e : coefficient_table()) {
    if (e.name == name) return coefficient_bounds(e);
  }
  for (const auto& e : process_entries) {
    if (e.name == name) return {1e6, 64e9};
  }
  return {0, 0};
}

Profile profile_of(const Run& like, const std::vector<CalibratedCoefficient>& time,
                   const std::vector<CalibratedCoefficient>& process) {
  Profile p;
  p.gpu = like.gpu.id;
  p.deepspeed = like.versions.deepspeed;
  p.torch = like.versions.torch;
  p.transformers = like.versions.transformers;
  for (const auto* table : {&time, &process}) {
    for (const auto& c : *table) {
      if (c.fitted)
        p.coefficients.push_back(
            {c.name, c.unit, c.value.value, c.value.value * c.value.relative_error, c.measurements});
    }
  }
  return p;
}

std::string mismatch(const Profile& p, const Run& run) {
  if (p.gpu != run.gpu.id) return "was measured on " + p.gpu + ", not on " + run.gpu.id;
  const auto other = [](const char* what, const Version& of, const Version& wanted) {
    return "was measured with " + std::string(what) + " " + text(of) + ", not " + text(wanted);
  };
  if (!same_minor(p.deepspeed, run.versions.deepspeed))
    return other("DeepSpeed", p.deepspeed, run.versions.deepspeed);
  if (!same_minor(p.torch, run.versions.torch)) return other("torch", p.torch, run.versions.torch);
  // transformers releases a minor version every few weeks.
  if (p.transformers.major != run.versions.transformers.major)
    return other("transformers", p.transformers, run.versions.transformers);
  return "";
}

TimeCoefficients coefficients(const Profile& p) {
  TimeCoefficients c;
  for (const auto& row : coefficient_table()) {
    if (const ProfileEntry* e = find(p, row.name)) c.*row.member = {e->value, e->standard_error / e->value};
  }
  return c;
}

ProcessBytes process_bytes(const Profile& p, std::int64_t world_size) {
  ProcessBytes b;
  if (world_size > 1) b.nccl = bytes(p, world_size <= 4 ? nccl_small : nccl_large);
  b.kernels = bytes(p, loaded_kernels);
  b.host = bytes(p, host_process);
  return b;
}

}  // namespace zplan
