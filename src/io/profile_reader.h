// zplan.profile/1: what a calibration found, from and to JSON. docs/files.md#profile
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/profile.h"

namespace zplan {

// Strict: an unknown name or key, another unit, a value no fit would give or a wrong type throws InputError with file
// and JSON pointer.
Profile read_profile(const std::string& text, const std::string& file);

nlohmann::ordered_json profile_json(const Profile& profile, const std::string& zplan_version);

}  // namespace zplan
