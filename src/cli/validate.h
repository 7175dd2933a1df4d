// `zplan validate`, with the GPUs of this machine as an argument, so that it can be tried where there are none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/validation_command.h"
#include "io/catalog.h"

namespace zplan {

struct LocalGpus {
  std::int64_t count = 0;
  std::string gpu;        // their name
  std::string why_none;   // where count is 0
};
// As the driver says; an unknown card counts as none, since its record could not be compared.
LocalGpus local_gpus(const Catalog& catalog);

struct ValidationReportOptions {
  std::vector<std::string> tolerances;  // empty: allocated peak within 2 %, reserved within 6 %
  bool json = false;
  bool dry_run = false;                 // print the command and stop
};

// Exit code: 0 within the tolerances; 1 outside, or ran out of memory where the prediction says it runs (and the other
// way round). Throws InputError where nothing can be run or nothing was measured.
int run_validation(const ValidationOptions& options, const ValidationReportOptions& report, const LocalGpus& here,
                   const Catalog& catalog, const std::string& data, Console& console);

}  // namespace zplan
