#include "run/report.h"

#include <cstdio>
#include <sstream>

#include "io/record_reader.h"
#include "spec/error.h"
#include "step/simulation.h"
#include "units/text.h"

namespace zplan::trainer {
namespace {

std::string cell(Bytes predicted, Bytes measured) {
  char text[64];
  const double error = measured.count > 0
                           ? 100.0 * static_cast<double>(predicted.count - measured.count) /
                                 static_cast<double>(measured.count)
                           : 0.0;
  std::snprintf(text, sizeof text, "%9.3f %9.3f %+7.2f %%", in_gib(predicted), in_gib(measured),
                error);
  return text;
}

std::string phase_name(const MeasuredPhase& m) {
  std::string name = m.phase;
  if (m.step >= 0)
    name = "step " + std::to_string(m.step) + "." + std::to_string(m.micro_step) + " " + m.phase;
  name.resize(20, ' ');
  return name;
}

const PhaseMemory* matching(const Simulation& simulation, const MeasuredPhase& m) {
  const PhaseMemory* found = nullptr;
  std::size_t outside = 0;
  for (const PhaseMemory& p : simulation.phases) {
    if (m.step >= 0 && p.step == m.step && p.micro_step == m.micro_step) {
      // forward, backward and step stand in this order in both
      static constexpr const char* kOrder[] = {"forward", "backward", "step"};
      if (outside < 3 && m.phase == kOrder[outside]) found = &p;
      ++outside;
    }
  }
  return found;
}

}  // namespace

std::string report(const Plan& plan, const std::string& data) {
  std::ostringstream out;
  try {
    const DiskFiles files;
    const Catalog catalog = load_catalog(files, data);
    const Record record = read_record(record_texts(files, plan.out).at(0), catalog, files);
    const Simulation simulation = simulate(record.run, Detail::Figures);
    out << "                     allocated peak, GiB             reserved peak, GiB\n"
        << "                     predicted  measured     error  predicted  measured     error\n";
    for (const MeasuredPhase& m : record.phases) {
      if (m.step != record.run.steps - 1) continue;
      const PhaseMemory* p = matching(simulation, m);
      if (!p) continue;
      out << phase_name(m) << ' ' << cell(p->figures.allocated_peak, m.allocated_peak) << "  "
          << cell(p->figures.reserved_peak, m.reserved_peak) << '\n';
    }
  } catch (const InputError& e) {
    out << "not compared with a prediction: " << e.problem() << '\n';
  }
  return out.str();
}

}  // namespace zplan::trainer
