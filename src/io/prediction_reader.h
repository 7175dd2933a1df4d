// What `zplan watch` needs of a plan.json (zplan.plan/1) or of what `zplan simulate --json` prints
// (zplan.simulation/1). Both are zplan's own and may get new keys: those not needed are not looked at.
#pragma once

#include <string>

#include "io/files.h"
#include "plan/watch.h"

namespace zplan {

// Throws InputError with file and pointer: no such file, another schema, a plan without a best, a run that ran out.
Prediction read_prediction(const FileSource& files, const std::string& path);

}  // namespace zplan
