#include <fstream>
#include <string>

#include "probe/memory_probe.h"

namespace zplan::trainer {
namespace {

class HostProbe final : public MemoryProbe {
 public:
  MemoryFigures read() override {
    MemoryFigures figures;
    read_host(figures);
    return figures;
  }
  void restart_peaks() override {}
};

}  // namespace

void read_host(MemoryFigures& figures) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto bytes = [&] { return KiB(std::stoll(line.substr(line.find(':') + 1))); };
    if (line.rfind("VmRSS:", 0) == 0) figures.host_rss = bytes();
    if (line.rfind("VmHWM:", 0) == 0) figures.host_rss_peak = bytes();
  }
}

std::unique_ptr<MemoryProbe> host_probe() { return std::make_unique<HostProbe>(); }

}  // namespace zplan::trainer
