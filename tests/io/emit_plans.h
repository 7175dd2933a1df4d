// Plans made by hand that together use every key zplan writes: stages, offload, precisions,
// launchers, versions.
#pragma once

#include <string>
#include <vector>

#include "io/emit.h"

namespace zplan {

struct EmitCase {
  std::string name;
  Run run;
  Cluster cluster;
  EmitOptions options;
};

std::vector<EmitCase> emit_cases();

}  // namespace zplan
