#include "cli/profile_option.h"

#include <optional>

#include "io/profile_reader.h"
#include "plan/profile.h"
#include "spec/error.h"

namespace zplan {
namespace {

struct Found {
  std::string path;
  Profile profile;
  int exact = 0;  // versions that are the same to the patch
};

int exact_versions(const Profile& p, const Versions& v) {
  return (p.deepspeed == v.deepspeed) + (p.torch == v.torch) + (p.transformers == v.transformers);
}

bool is_json(const std::string& path) { return path.size() > 5 && path.compare(path.size() - 5, 5, ".json") == 0; }

// Of those that match the one nearest in versions; among equals the last by name, since names may carry a date.
std::optional<Found> search(const std::string& folder, const FileSource& files, RunInputs& in) {
  std::optional<Found> best;
  if (folder.empty()) return best;
  for (const std::string& path : files.list(folder)) {
    if (!is_json(path)) continue;
    try {
      Found f{path, read_profile(files.read(path), path)};
      if (!mismatch(f.profile, in.run).empty()) continue;
      f.exact = exact_versions(f.profile, in.run.versions);
      if (!best || f.exact >= best->exact) best = f;
    } catch (const InputError& e) {
      in.notes.push_back({Note::Level::Warning, "profile-not-read",
                          "A profile is passed over: " + e.where() + ": " + e.problem() + ".", e.fix()});
    }
  }
  return best;
}

// Every figure that the profile moves can be traced to it.
Note note(const Found& f) {
  return {Note::Level::Info, "profile-used",
          "Calibrated: " + std::to_string(f.profile.coefficients.size()) + " coefficients of " + f.path +
              ", measured with DeepSpeed " + text(f.profile.deepspeed) + ", torch " + text(f.profile.torch) +
              " and transformers " + text(f.profile.transformers) + ".",
          ""};
}

}  // namespace

void use_profile(const RunOptions& o, const FileSource& files, RunInputs& in) {
  if (o.profile == "none") return;
  std::optional<Found> found;
  if (!o.profile.empty()) {
    found = Found{o.profile, read_profile(files.read(o.profile), o.profile)};
    if (const std::string why = mismatch(found->profile, in.run); !why.empty()) {
      throw InputError("--profile " + o.profile, why,
                       "calibrate on this GPU with these versions, or use --profile none");
    }
  } else {
    found = search(o.profiles, files, in);
    if (!found) return;
    in.assumptions.push_back({"--profile", found->path, "calibrated on this GPU with these versions"});
  }
  in.notes.push_back(note(*found));
  in.coefficients = coefficients(found->profile);
  in.run.process = process_bytes(found->profile, in.run.world_size);
}

}  // namespace zplan
