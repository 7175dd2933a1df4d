#include "io/report.h"

#include <algorithm>

namespace zplan {

Bytes SimulationReport::host_peak() const {
  Bytes most;
  for (const auto& p : simulation.phases) most = std::max(most, p.host_peak);
  return std::max(host.total(), most);
}

Bytes SimulationReport::host_pinned() const {
  Bytes most;
  for (const auto& p : simulation.phases) most = std::max(most, p.host_pinned);
  return std::max(host.pinned, most);
}

}  // namespace zplan
