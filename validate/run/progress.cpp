#include "run/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "units/text.h"

namespace zplan::trainer {

Progress::Progress(const Plan& plan, bool speaks)
    : plan_(plan),
      speaks_(speaks),
      terminal_(speaks && isatty(STDERR_FILENO)),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::show(const std::string& line) {
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

void Progress::phase(Phase phase, std::int64_t step) {
  if (!terminal_) return;
  std::string bar(24, '.');
  const auto width = static_cast<std::int64_t>(bar.size());
  const std::int64_t filled =
      plan_.run.steps > 0 ? std::clamp<std::int64_t>(step * width / plan_.run.steps, 0, width) : 0;
  std::fill_n(bar.begin(), filled, '#');
  std::string line = "[" + bar + "] ";
  line += step < 0 ? text(phase)
                   : "step " + std::to_string(step + 1) + "/" + std::to_string(plan_.run.steps) +
                         " " + text(phase);
  if (any_loss_) {
    char number[32];
    std::snprintf(number, sizeof number, ", loss %.3f", loss_);
    line += number;
  }
  if (peak_.count > 0) line += ", allocated peak " + zplan::text(peak_);
  show(line);
}

void Progress::done(const PhaseRecord& record) {
  peak_ = std::max(peak_, record.memory.device.allocated_peak);
  if (!plan_.monitor.empty() && speaks_)
    write_file(plan_.monitor, prometheus_text(record, plan_.run.rank, loss_));
}

void Progress::step(std::int64_t step, double loss) {
  loss_ = loss;
  any_loss_ = true;
  if (speaks_ && !terminal_) {  // a log: one line a step
    const double elapsed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    std::fprintf(stderr, "step %lld loss %.4f allocated peak %s elapsed %.1f s\n",
                 static_cast<long long>(step), loss, zplan::text(peak_).c_str(), elapsed);
  }
}

std::string prometheus_text(const PhaseRecord& record, std::int64_t rank, double loss) {
  std::ostringstream out;
  const auto gauge = [&](const char* name, const char* help, double value) {
    out << "# HELP zplan_validate_" << name << ' ' << help << "\n# TYPE zplan_validate_" << name
        << " gauge\n"
        << "zplan_validate_" << name << "{rank=\"" << rank << "\",phase=\"" << text(record.phase)
        << "\"} " << value << '\n';
  };
  out.precision(17);
  const MemoryFigures& m = record.memory;
  gauge("step", "Step the phase belongs to, -1 before training.", static_cast<double>(record.step));
  gauge("phase_seconds", "Wall time of the phase.", record.seconds);
  gauge("loss", "Mean loss of the last whole step.", loss);
  gauge("allocated_bytes", "Live tensors as torch's allocator counts them.",
        static_cast<double>(m.device.allocated.count));
  gauge("allocated_peak_bytes", "Peak of allocated bytes in the phase.",
        static_cast<double>(m.device.allocated_peak.count));
  gauge("reserved_bytes", "Segments torch's allocator holds.",
        static_cast<double>(m.device.reserved.count));
  gauge("reserved_peak_bytes", "Peak of reserved bytes in the phase.",
        static_cast<double>(m.device.reserved_peak.count));
  gauge("host_rss_bytes", "Resident host memory of the rank.",
        static_cast<double>(m.host_rss.count));
  gauge("host_pinned_bytes", "Page-locked host memory of the rank.",
        static_cast<double>(m.host_pinned.count));
  if (m.device_used)
    gauge("device_used_bytes", "Device memory in use as the driver counts it.",
          static_cast<double>(m.device_used->count));
  return out.str();
}

}  // namespace zplan::trainer
