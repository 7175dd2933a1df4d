// The lines of launch.sh that start the processes.
#pragma once

#include <string>

#include "io/emit.h"

namespace zplan {

// They use the variables script, arguments and here, and the function fail, of the lines above
// them.
std::string start_command(const Cluster& cluster, Launcher launcher);

}  // namespace zplan
