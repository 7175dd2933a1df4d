// A run written down: configs/x.json names a model, a machine and whatever else the options of `zplan plan` say.
#pragma once

#include <string>
#include <vector>

#include "io/files.h"

namespace zplan {

// The options of the file as a command line would give them: {"model": "qwen3-8b", "no_files": true, "fix": ["stage=3"]}
// becomes --model qwen3-8b --no-files --fix stage=3. Throws InputError naming file and pointer.
std::vector<std::string> options_of_file(const FileSource& files, const std::string& path);

}  // namespace zplan
