// The state of a watched job in Prometheus' text exposition format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). docs/watching.md#metrics
#pragma once

#include <string>

#include "plan/watch.h"

namespace zplan {

// Every metric with HELP and TYPE; bytes, seconds and counts in base units. `version`: zplan's.
std::string prometheus_text(const Watch& watch, const std::string& version);

}  // namespace zplan
