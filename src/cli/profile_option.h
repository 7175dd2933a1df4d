// --profile FILE|none: which calibration a prediction uses. Without the option the profiles of the user's folder are
// searched for one of this GPU and these versions.
#pragma once

#include <string>

#include "cli/run_options.h"
#include "io/files.h"

namespace zplan {

// Puts the profile's values into the inputs. Throws InputError for a file that is none or is of another GPU or other
// versions; a bad file that was merely found becomes a note.
void use_profile(const RunOptions& options, const FileSource& files, RunInputs& inputs);

}  // namespace zplan
